"""Nearest neighbours within the nearest clusters (DXML, section 3.4).

    query ─ the `probe` nearest centres (Eq. 4) ─ the vectors of those clusters ─ the k most similar

k-means runs here, so that clusters are the same on every machine. The search uses faiss where it is
installed, else numpy. Candidates are then compared again in one fixed way, on a grid coarser than
rounding: both searches give the same neighbours in any batch.
"""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ontodex.errors import require
from ontodex.models.baselines.neighbours import Neighbours

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

_BLOCK_QUERIES = 128  # searched at a time
_SPARE = 16  # candidates beyond k, so that ties at rank k are broken here and not by faiss
_GRID = np.float32(2**16)  # similarities are compared in steps of 1 / _GRID
_ROUNDS = 20  # of k-means; afterwards hardly a vector changes its cluster


class ClusterIndex:
    """Unit vectors in their order, each in the cluster of its nearest centre."""

    def __init__(self, centres: Floats, vectors: Floats, *, with_faiss: bool | None = None) -> None:
        self.centres, self.vectors = centres, vectors
        self.with_faiss = find_spec("faiss") is not None if with_faiss is None else with_faiss

    @classmethod
    def fit(
        cls, vectors: Floats, n_clusters: int, *, seed: int, device: str = "cpu"
    ) -> ClusterIndex:
        """Build at most `n_clusters` clusters, one for each vector if there are fewer vectors."""
        return cls(run_k_means(vectors, n_clusters, seed=seed, device=device), vectors)

    def __len__(self) -> int:
        return len(self.vectors)

    def add(self, vectors: Floats) -> ClusterIndex:
        """Return an index with more vectors, in the same clusters."""
        return ClusterIndex(
            self.centres, np.concatenate([self.vectors, vectors]), with_faiss=self.with_faiss
        )

    def search(self, queries: Floats, k: int, probe: int) -> Neighbours:
        """Return the k most similar vectors of the `probe` nearest clusters of each query."""
        probe = min(probe, len(self.centres))
        kept = min(k, len(self))
        docs = np.full((len(queries), kept), -1, dtype=np.int64)
        similarity = np.zeros((len(queries), kept), dtype=np.float32)
        for start in range(0, len(queries), _BLOCK_QUERIES):
            part = slice(start, start + _BLOCK_QUERIES)
            search = self._search_faiss if self.with_faiss else self._search_numpy
            found = search(queries[part], min(kept + _SPARE, len(self)), probe)
            docs[part], similarity[part] = self._sort_candidates(queries[part], found, kept)
        return Neighbours(docs, similarity)

    def _sort_candidates(self, queries: Floats, found: Rows, k: int) -> tuple[Rows, Floats]:
        """Return the best k candidates (-1 = none), by similarity on the grid, then by number."""
        similarity = np.einsum("ne,nke->nk", queries, self.vectors[found])
        similarity = np.round(similarity * _GRID) / _GRID
        similarity = np.where(found >= 0, similarity, -np.inf)
        order = np.lexsort((found, -similarity), axis=1)[:, :k]
        docs = np.take_along_axis(found, order, axis=1)
        similarity = np.take_along_axis(similarity, order, axis=1)
        return docs, np.where(docs >= 0, similarity, 0).astype(np.float32)

    @cached_property
    def _index(self) -> Any:
        faiss = require("faiss", extra="learn", purpose="the search by faiss")
        centres = faiss.IndexFlatL2(self.centres.shape[1])
        centres.add(np.ascontiguousarray(self.centres))
        index = faiss.IndexIVFFlat(
            centres, self.centres.shape[1], len(self.centres), faiss.METRIC_INNER_PRODUCT
        )
        index.add(np.ascontiguousarray(self.vectors))
        return index

    def _search_faiss(self, queries: Floats, k: int, probe: int) -> Rows:
        self._index.nprobe = probe
        found: Rows = self._index.search(np.ascontiguousarray(queries), k)[1]
        return found

    @cached_property
    def _members(self) -> list[Rows]:
        """The vectors of each cluster."""
        own = find_nearest_centres(self.vectors, self.centres, 1)[:, 0]
        order = np.argsort(own, kind="stable")
        return np.split(order, np.searchsorted(own[order], np.arange(1, len(self.centres))))

    def _search_numpy(self, queries: Floats, k: int, probe: int) -> Rows:
        """Search cluster by cluster, each with all the queries that probe it."""
        probed = find_nearest_centres(queries, self.centres, probe)  # (n, probe)
        best = np.full((len(queries), k), -1, dtype=np.int64)
        value = np.full((len(queries), k), -np.inf, dtype=np.float32)
        for cluster in np.unique(probed):
            rows = np.flatnonzero((probed == cluster).any(axis=1))
            members = self._members[cluster]
            similarity = queries[rows] @ self.vectors[members].T
            ids = np.broadcast_to(members, similarity.shape)
            ids = np.concatenate([best[rows], ids], axis=1)
            all_values = np.concatenate([value[rows], similarity], axis=1)
            top = np.argpartition(-all_values, k - 1, axis=1)[:, :k]
            best[rows] = np.take_along_axis(ids, top, axis=1)
            value[rows] = np.take_along_axis(all_values, top, axis=1)
        return best


def find_nearest_centres(vectors: Floats, centres: Floats, count: int) -> Rows:
    """Return (n, count): the centres at the smallest Euclidean distance, nearest first (Eq. 4)."""
    half = 0.5 * np.einsum("me,me->m", centres, centres)
    closeness = vectors @ centres.T - half
    return np.argsort(-closeness, axis=1, kind="stable")[:, :count]


def run_k_means(vectors: Floats, n_clusters: int, *, seed: int, device: str = "cpu") -> Floats:
    """Return the centres (clusters, e) by Lloyd's algorithm, started from random vectors.

    A cluster that loses all its vectors keeps its centre.
    """
    n = len(vectors)
    first = np.random.default_rng(seed).choice(n, size=min(n_clusters, n), replace=False)
    x = torch.from_numpy(np.ascontiguousarray(vectors)).to(device)
    centres = x[torch.from_numpy(np.sort(first)).to(device)].clone()
    for _ in range(_ROUNDS):
        half = 0.5 * centres.square().sum(1)
        own = torch.cat([(part @ centres.T - half).argmax(1) for part in x.split(2**14)])
        count = torch.bincount(own, minlength=len(centres))
        total = torch.zeros_like(centres).index_add_(0, own, x)
        new = torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], centres)
        if torch.equal(new, centres):
            break
        centres = new
    return np.asarray(centres.cpu().numpy(), dtype=np.float32)


def search_all(queries: Floats, vectors: Floats, k: int, device: torch.device) -> Neighbours:
    """Return the k most similar of all vectors for each query."""
    others = torch.from_numpy(vectors).to(device)
    kept = min(k, len(vectors))
    docs, similarity = [np.empty((0, kept), np.int64)], [np.empty((0, kept), np.float32)]
    for block in torch.from_numpy(queries).to(device).split(256):
        best, which = (block @ others.T).topk(kept, dim=1)
        docs.append(which.cpu().numpy())
        similarity.append(best.cpu().numpy())
    return Neighbours(np.concatenate(docs), np.concatenate(similarity))
