"""A memory of vectors in clusters: k-means, then neighbours within the nearest clusters (001, 3.4).

    query ─ the `probe` nearest centres (Eq. 4) ─ the vectors of those clusters ─ the k most similar

Clusters are learned here, so that they are the same on every machine; the search is faiss's where
faiss is installed and numpy's where it is not. Either way candidates are compared once more in one
fixed way, on a grid coarser than rounding: both give the same neighbours, whatever the batch.
"""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ontodex.errors import require
from ontodex.models.neighbours import Neighbours

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

_QUERIES = 128  # looked up at a time
_SPARE = 16  # candidates beyond k, so that ties at the edge are settled here and not by faiss
_GRID = np.float32(2**16)  # similarities are compared in steps of 1 / _GRID
_ROUNDS = 20  # of k-means; after that hardly a vector moves


class Clusters:
    """Unit vectors, numbered as they came, each in the cluster of its nearest centre."""

    def __init__(self, centres: Floats, vectors: Floats, *, with_faiss: bool | None = None) -> None:
        self.centres, self.vectors = centres, vectors
        self.with_faiss = find_spec("faiss") is not None if with_faiss is None else with_faiss

    @classmethod
    def learn(cls, vectors: Floats, n_clusters: int, *, seed: int, device: str = "cpu") -> Clusters:
        """As many clusters as asked for, or as there are vectors if they are fewer."""
        return cls(k_means(vectors, n_clusters, seed=seed, device=device), vectors)

    def __len__(self) -> int:
        return len(self.vectors)

    def joined_by(self, vectors: Floats) -> Clusters:
        """With more vectors, in the clusters that are there."""
        return Clusters(
            self.centres, np.concatenate([self.vectors, vectors]), with_faiss=self.with_faiss
        )

    def nearest(self, queries: Floats, k: int, probe: int) -> Neighbours:
        """The k most similar vectors of the `probe` nearest clusters of each query."""
        probe = min(probe, len(self.centres))
        kept = min(k, len(self))
        docs = np.full((len(queries), kept), -1, dtype=np.int64)
        similarity = np.zeros((len(queries), kept), dtype=np.float32)
        for start in range(0, len(queries), _QUERIES):
            part = slice(start, start + _QUERIES)
            look = self._by_faiss if self.with_faiss else self._by_numpy
            found = look(queries[part], min(kept + _SPARE, len(self)), probe)
            docs[part], similarity[part] = self._ordered(queries[part], found, kept)
        return Neighbours(docs, similarity)

    def _ordered(self, queries: Floats, found: Rows, k: int) -> tuple[Rows, Floats]:
        """The best k of the found (-1 = none), by similarity on the grid and then by number."""
        similarity = np.einsum("ne,nke->nk", queries, self.vectors[found])
        similarity = np.round(similarity * _GRID) / _GRID
        similarity = np.where(found >= 0, similarity, -np.inf)
        order = np.lexsort((found, -similarity), axis=1)[:, :k]
        docs = np.take_along_axis(found, order, axis=1)
        similarity = np.take_along_axis(similarity, order, axis=1)
        return docs, np.where(docs >= 0, similarity, 0).astype(np.float32)

    # ----------------------------------------------------------------------------- two searches

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

    def _by_faiss(self, queries: Floats, k: int, probe: int) -> Rows:
        self._index.nprobe = probe
        found: Rows = self._index.search(np.ascontiguousarray(queries), k)[1]
        return found

    @cached_property
    def _members(self) -> list[Rows]:
        """The vectors of each cluster."""
        own = nearest_centres(self.vectors, self.centres, 1)[:, 0]
        order = np.argsort(own, kind="stable")
        return np.split(order, np.searchsorted(own[order], np.arange(1, len(self.centres))))

    def _by_numpy(self, queries: Floats, k: int, probe: int) -> Rows:
        """Cluster by cluster, each with all the queries that look into it."""
        probed = nearest_centres(queries, self.centres, probe)  # (n, probe)
        best = np.full((len(queries), k), -1, dtype=np.int64)
        value = np.full((len(queries), k), -np.inf, dtype=np.float32)
        for cluster in np.unique(probed):
            asking = np.flatnonzero((probed == cluster).any(axis=1))
            members = self._members[cluster]
            similarity = queries[asking] @ self.vectors[members].T
            ids = np.broadcast_to(members, similarity.shape)
            ids = np.concatenate([best[asking], ids], axis=1)
            all_values = np.concatenate([value[asking], similarity], axis=1)
            top = np.argpartition(-all_values, k - 1, axis=1)[:, :k]
            best[asking] = np.take_along_axis(ids, top, axis=1)
            value[asking] = np.take_along_axis(all_values, top, axis=1)
        return best


def nearest_centres(vectors: Floats, centres: Floats, count: int) -> Rows:
    """(n, count): the centres at the smallest Euclidean distance, nearest first (Eq. 4)."""
    half = 0.5 * np.einsum("me,me->m", centres, centres)
    closeness = vectors @ centres.T - half
    return np.argsort(-closeness, axis=1, kind="stable")[:, :count]


def k_means(vectors: Floats, n_clusters: int, *, seed: int, device: str = "cpu") -> Floats:
    """(clusters, e) centres by Lloyd's rounds from random vectors; a cluster that loses all its
    vectors keeps its centre."""
    n = len(vectors)
    first = np.random.default_rng(seed).choice(n, size=min(n_clusters, n), replace=False)
    x = torch.from_numpy(np.ascontiguousarray(vectors)).to(device)
    centres = x[torch.from_numpy(np.sort(first)).to(device)].clone()
    for _ in range(_ROUNDS):
        half = 0.5 * centres.square().sum(1)
        own = torch.cat([(part @ centres.T - half).argmax(1) for part in x.split(2**14)])
        count = torch.bincount(own, minlength=len(centres))
        total = torch.zeros_like(centres).index_add_(0, own, x)
        moved = torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return np.asarray(centres.cpu().numpy(), dtype=np.float32)


__all__ = ["Clusters", "k_means", "nearest_centres"]
