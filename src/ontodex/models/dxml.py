"""DXML: documents are embedded where their labels lie in a graph, and ask their neighbours (001).

    features ─ W1, ReLU ─ W2, dropout ─ L2 norm = f_x ─ nearest clusters ─ k nearest ─ their labels
     (n, m)     (n, d)      (n, e)       (n, e)                             (n, k)        (n, l)
    labels ─ label graph ─ DeepWalk = V ─ mean over a document's labels = f_y
                              (l, e)                 (n, e)

Training pulls f_x to f_y; with `embedding = "kernel"` kernel regression (landmarks.py) takes the
place of the network. Deviations from the paper, with reasons and measured effects:
docs/papers/dxml.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.config import build
from ontodex.decide.calibrate import Calibration
from ontodex.errors import DataError, RunError
from ontodex.features import batches
from ontodex.features.label_graph import label_vectors
from ontodex.features.matrix import MatrixFeatures
from ontodex.models.base import Span
from ontodex.models.clusters import Clusters
from ontodex.models.dxml_network import Committee, DxmlConfig
from ontodex.models.landmarks import RIDGES, Landmarks
from ontodex.models.neighbours import Neighbours, best_vote, joined, quality, remembered
from ontodex.models.sparse_input import (
    SHARD_BYTES,
    Rows,
    SparseInput,
    load_finite,
    load_network,
    save_network,
    typical_length,
)
from ontodex.models.sparse_rows import (
    CALIBRATION_RANKS,
    as_rows,
    load_about,
    load_rows,
    save_about,
    save_rows,
    spans,
)
from ontodex.progress import track
from ontodex.train import loop, store
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]

_EMBEDDED_TOGETHER = 1_024
_NEIGHBOURS = (10, 20, 40, 80, 160)  # tried on dev
_EXPONENTS = (0.0, 5.0, 10.0, 20.0, 40.0)
_SHARES = (0.0, 0.25, 0.5)  # of f_y in where a remembered document lies, by kernel regression
_JUDGES = 2_000  # documents that were left out, and are asked who their neighbours are
_PROBES = (1, 2, 4, 8, 16, 32, 64)
_WORTH_A_PROBE = 0.0005  # of nDCG@5 on dev; less is not worth looking into twice the clusters


# ------------------------------------------------------------------------------------- the targets


def spread_out(vectors: Floats, frequency: NDArray[np.int64]) -> Floats:
    """The label vectors centred and whitened, each label counted as often as it occurs.

    DeepWalk's vectors of a dense graph share one large direction; mean label vectors would hardly
    differ, and neighbours among them would mean little."""
    weight = frequency / max(1, frequency.sum())
    centred = vectors - weight @ vectors
    sizes, directions = np.linalg.eigh((centred * weight[:, None]).T @ centred)
    kept = sizes > 1e-6 * max(float(sizes.max()), 1e-30)
    return np.asarray(centred @ (directions[:, kept] / np.sqrt(sizes[kept])), dtype=np.float32)


def mean_vectors(gold: csr_array, vectors: Floats, *, unit: bool) -> Floats:
    """f_y = V y / nnz(y) (Algorithm 1, line 3), scaled to length 1 where `unit` is set."""
    count = np.maximum(np.diff(gold.indptr), 1)[:, None]
    mean = (gold.astype(np.float32) @ vectors) / count
    return _unit(mean) if unit else np.asarray(mean, dtype=np.float32)


# -------------------------------------------------------------------------------------- the system


class Dxml:
    """Learns where documents lie; new documents join the memory at once, with new labels too."""

    Config = DxmlConfig

    def __init__(self, config: DxmlConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # where checkpoints go, when training may be resumed
        self.features = MatrixFeatures(config)
        self.network: Committee | None = None
        self.landmarks: Landmarks | None = None  # in its place: these, and
        self.weights: Floats = np.empty((0, 0), np.float32)  # (landmarks, e)
        self.ridge, self.share = config.ridge or 0.3, 0.25  # by kernel regression
        self.chosen = False  # these and what follows, by documents that were left out
        self.memory = Clusters(np.zeros((1, 1), np.float32), np.zeros((0, 1), np.float32))
        self.gold = csr_array(np.zeros((0, 0), np.float32))  # (documents, labels)
        self.epochs = config.train.epochs
        self.neighbours = config.neighbours or 20
        self.exponent = config.exponent if config.exponent >= 0 else 20.0
        self.probe = config.probe or 8
        self.calibration = Calibration.none()

    # -------------------------------------------------------------------------------------- fit

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Algorithm 1, then what dev decides."""
        self.epochs, self.chosen = self.config.train.epochs, False
        self._learn(train, dev, labels)
        if len(dev):
            self._tune(self.embed(dev), labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """Algorithm 1 on these documents, with what dev decided; calibration stays."""
        self._learn(train, train.select([]), labels)

    def _learn(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        rows = as_rows(self.features.fit(train))
        gold = remembered(train, labels)
        has_labels = np.flatnonzero(np.diff(gold.indptr))
        if not len(has_labels):
            raise DataError("no training document has a label", path=train.folder)
        self.gold, rows = csr_array(gold[has_labels]), csr_array(rows[has_labels])
        vectors = label_vectors(train, labels, self.config, device=str(self.device))  # V
        if self.config.spread:
            vectors = spread_out(vectors, labels.frequency)
        targets = mean_vectors(self.gold, vectors, unit=self.config.unit_targets)
        if self.config.embedding == "kernel":
            vectors = self._solve(rows, targets, dev, labels.gold(dev))
        else:
            vectors = self._train_network(rows, targets, dev, labels.gold(dev))
        wanted = self.config.clusters or round(len(vectors) ** 0.5)
        seed, device = self.config.train.seed, str(self.device)
        self.memory = Clusters.learn(_rounded(vectors), wanted, seed=seed, device=device)

    def _train_network(
        self, rows: csr_array, targets: Floats, dev: Corpus, dev_gold: csr_array
    ) -> Floats:
        """Where the training documents lie then."""
        settings, data = self.config.train, SparseInput(rows, self.device)
        torch.manual_seed(settings.seed)
        size = (self.features.n_features, targets.shape[1], typical_length(rows))
        self.network = network = Committee(self.config, *size).to(self.device)
        target = torch.from_numpy(targets).to(self.device)
        dev_data = self._input(dev)

        def plan(epoch: int) -> list[Rows]:
            return batches.plan(data.lengths, settings.batch, seed=settings.seed, epoch=epoch)

        def loss(rows: Rows) -> Tensor:
            at = torch.from_numpy(rows).to(self.device, non_blocking=True)
            return network.loss(*data.batch(rows), target[at])

        def score() -> float:
            nearest = exact(self._embed(dev_data), self._embed(data), self.neighbours, self.device)
            return quality(dev_gold, nearest.vote(self.gold, self.neighbours, self.exponent, 5))

        choosing = dev_gold.nnz > 0
        state = loop.fit(
            network,
            batches=plan,
            loss=loss,
            config=settings,
            score=score if choosing else None,
            folder=self.work,
            stop=self.epochs,
        )
        if choosing:
            self.epochs = state.best_epoch + 1
        # Rounded now, so that what is saved in half precision is exactly what ranks from here on.
        network.half().float().eval()
        return self._embed(data)

    def _solve(self, rows: csr_array, targets: Floats, dev: Corpus, dev_gold: csr_array) -> Floats:
        """Kernel regression onto the targets. A training document lies between its own target and
        where it would be placed had it not been learned from, as new documents are. Where every
        document is a landmark, such places are known of all of them, and these decide instead of
        dev: ridge, how far between, neighbours and exponent."""
        config, weigh, n = self.config, self.features.kind == "sparse", rows.shape[0]
        landmarks = Landmarks.of(rows, config, weigh_by_count=weigh, seed=config.train.seed)
        self.landmarks, equations = landmarks, landmarks.equations(rows, targets)
        some = np.random.default_rng(config.train.seed).permutation(n)[:_JUDGES]

        def placed(ridge: float) -> Floats:
            factored = equations.at(ridge)
            self.weights = factored.weights()
            if len(landmarks) < n:
                return self._near_to(rows)
            return _unit(factored.left_out(self.weights))

        def asked(places: Floats, vectors: Floats) -> tuple[Neighbours, csr_array]:
            if len(landmarks) < n:
                return exact(self.embed(dev), vectors, max(_NEIGHBOURS), self.device), dev_gold
            found = exact(places[some], vectors, max(_NEIGHBOURS) + 1, self.device)
            return found.without(some), csr_array(self.gold[some])

        def judged(ridge: float) -> Iterator[tuple[float, tuple[float, float, int, float]]]:
            places = placed(ridge)
            for share in _SHARES:
                nearest, gold = asked(places, _between(places, targets, share))
                k, exponent = best_vote(nearest, self.gold, gold, *self._votes())
                reached = quality(gold, nearest.vote(self.gold, k, exponent, 5))
                yield reached, (ridge, share, k, exponent)

        if not self.chosen and (len(landmarks) == n or dev_gold.nnz):
            ridges = (config.ridge,) if config.ridge else RIDGES
            _, best = max(
                found for ridge in track(ridges, "solving", len(ridges)) for found in judged(ridge)
            )
            self.ridge, self.share, self.neighbours, self.exponent = best
            self.chosen = True
        return _between(placed(self.ridge), targets, self.share)

    def _near_to(self, rows: csr_array) -> Floats:
        assert self.landmarks is not None
        parts = self.landmarks.parts(rows.shape[0])
        found = [self.landmarks.near(rows[part]) @ self.weights for part in parts]
        return _unit(np.concatenate(found))

    def _tune(self, queries: Floats, gold: csr_array) -> None:
        """Choose neighbours and exponent among all documents, then the fewest clusters to look into
        that lose nothing, and calibrate."""
        counts, exponents = self._votes()
        nearest = exact(queries, self.memory.vectors, max(counts), self.device)
        if gold.nnz:
            self.neighbours, self.exponent = best_vote(nearest, self.gold, gold, counts, exponents)
            wanted = quality(gold, self._vote(nearest, 5)) - _WORTH_A_PROBE
            self.probe = self.config.probe or self._fewest_probes(queries, gold, wanted)
        ranking = self._vote(self._nearest(queries), CALIBRATION_RANKS)
        self.calibration = Calibration.fit(ranking, gold)
        by_kernel = f"ridge {self.ridge}, {100 * self.share:.0f} % of f_y"
        logger.info(
            "%s, %s neighbours, exponent %s, %s of %s clusters",
            by_kernel if self.landmarks is not None else f"{self.epochs} epochs",
            self.neighbours, self.exponent, self.probe, len(self.memory.centres),
        )  # fmt: skip

    def _votes(self) -> tuple[Sequence[int], Sequence[float]]:
        """Neighbours and exponents that may still be chosen."""
        config = self.config
        if self.chosen:
            return (self.neighbours,), (self.exponent,)
        return (
            (config.neighbours,) if config.neighbours else _NEIGHBOURS,
            (config.exponent,) if config.exponent >= 0 else _EXPONENTS,
        )

    def _fewest_probes(self, queries: Floats, gold: csr_array, wanted: float) -> int:
        for probe in _PROBES:
            nearest = self.memory.nearest(queries, self.neighbours, probe)
            if quality(gold, self._vote(nearest, 5)) >= wanted:
                return probe
        return len(self.memory.centres)

    # ------------------------------------------------------------------------------------- rank

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        """Algorithm 2."""
        return self.calibration.apply(self._vote(self._nearest(self.embed(corpus)), k))

    def embed(self, corpus: Corpus) -> Floats:
        """(documents, e): f_x."""
        if self.landmarks is not None:
            return self._near_to(as_rows(self.features.transform(corpus)))
        return self._embed(self._input(corpus))

    def _input(self, corpus: Corpus) -> SparseInput:
        return SparseInput(as_rows(self.features.transform(corpus)), self.device)

    def _embed(self, data: SparseInput) -> Floats:
        network = self._fitted().eval()
        order = np.arange(len(data))
        with torch.inference_mode():
            parts = [
                network(*data.batch(order[i : i + _EMBEDDED_TOGETHER])).cpu().numpy()
                for i in range(0, len(order), _EMBEDDED_TOGETHER)
            ]
        return np.concatenate([np.empty((0, network.size), np.float32), *parts])

    def _nearest(self, queries: Floats) -> Neighbours:
        return self.memory.nearest(queries, self.neighbours, self.probe)

    def _vote(self, nearest: Neighbours, k: int) -> Ranking:
        return nearest.vote(self.gold, self.neighbours, self.exponent, k)

    def update(self, corpus: Corpus, labels: LabelSpace) -> None:
        """New documents vote from now on, for new labels too; the network stays as it is."""
        self.memory = self.memory.joined_by(_rounded(self.embed(corpus)))
        self.gold = joined(self.gold, corpus, labels)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Value x gradient of how far the document lies towards the neighbours that have the label,
        and away from the others."""
        one = Corpus.of([doc])
        pull = self._pull(self.embed(one), column)
        if self.landmarks is not None:
            row = as_rows(self.features.transform(one))
            f = self.landmarks.near(row) @ self.weights  # (1, e)
            pull = pull / max(float(np.linalg.norm(f)), 1e-12)
            told = self.landmarks.slope(row, (self.weights @ pull.T)[:, 0])
        else:
            columns, starts, values = self._input(one).batch(np.array([0]))
            values.requires_grad_()
            towards = torch.from_numpy(pull).to(self.device)
            far = self._fitted().eval().pulled(columns, starts, values, towards)
            (gradient,) = torch.autograd.grad(far, values)
            found = (gradient.cpu().numpy(), columns.cpu().numpy(), np.array([0, len(columns)]))
            told = csr_array(found, shape=(1, self.features.n_features))
        return spans(self.features, doc, told)

    def _pull(self, f_x: Floats, column: int) -> Floats:
        """(1, e): from the neighbours without a label to those that have it, each by its share of
        the vote; the space is centred, so where one side is empty its place is 0."""
        votes = self._nearest(f_x).votes(self.neighbours, self.exponent, len(self.memory))
        share, vectors = votes.data, self.memory.vectors[votes.indices]
        has = self.gold[:, [column]].toarray()[votes.indices, 0] > 0
        sides = [share[side] @ vectors[side] / max(float(share[side].sum()), 1e-12)
                 for side in (has, ~has)]  # fmt: skip
        return np.asarray((sides[0] - sides[1])[None], np.float32)

    def _fitted(self) -> Committee:
        if self.network is None:
            raise RunError("dxml was asked before it was fitted")
        return self.network

    # --------------------------------------------------------------------------------- the files

    def save(self, folder: Path) -> None:
        if self.landmarks is not None:
            self.landmarks.save(folder, self.weights)
        else:
            save_network(folder, self._fitted())
        memory = {"vectors": self.memory.vectors.astype(np.float16)}
        store.save_tensors(folder, "memory", memory, shard_bytes=SHARD_BYTES)
        store.save_tensors(folder, "centres", {"centres": self.memory.centres})
        save_rows(folder, "gold", self.gold)
        self.features.save(folder)
        chosen = {
            "epochs": self.epochs,
            "neighbours": self.neighbours,
            "exponent": self.exponent,
            "probe": self.probe,
            "ridge": self.ridge,
            "share": self.share,
        }
        save_about(folder, self.config, self.calibration, chosen=chosen)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_about(folder)
        model = cls(build(DxmlConfig, about["config"], "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.calibration = about["calibration"]
        chosen = about["chosen"]
        model.epochs, model.neighbours = int(chosen["epochs"]), int(chosen["neighbours"])
        model.exponent, model.probe = float(chosen["exponent"]), int(chosen["probe"])
        model.ridge = float(chosen.get("ridge", model.ridge))  # runs of before have none
        model.share = float(chosen.get("share", model.share))
        model.gold, _ = load_rows(folder, "gold")
        centres, vectors = (load_finite(folder, name) for name in ("centres", "memory"))
        model.memory = Clusters(centres["centres"], vectors["vectors"])
        size = model.memory.vectors.shape[1]
        if model.gold.shape != (len(model.memory), len(labels)):
            raise RunError(f"{folder}: the memory does not fit the labels beside it")
        if model.config.embedding == "kernel":
            shape = (model.features.n_features, size)
            model.landmarks, model.weights = Landmarks.load(folder, model.config, shape)
        else:
            network = Committee(model.config, model.features.n_features, size, 1.0)
            load_network(folder, network)
            model.network = network.to(model.device).eval()
        return model


def exact(queries: Floats, keys: Floats, k: int, device: torch.device) -> Neighbours:
    """The k most similar of all keys, for each query."""
    other = torch.from_numpy(keys).to(device)
    kept = min(k, len(keys))
    docs, similarity = [np.empty((0, kept), np.int64)], [np.empty((0, kept), np.float32)]
    for part in torch.from_numpy(queries).to(device).split(256):
        best, which = (part @ other.T).topk(kept, dim=1)
        docs.append(which.cpu().numpy())
        similarity.append(best.cpu().numpy())
    return Neighbours(np.concatenate(docs), np.concatenate(similarity))


def _unit(vectors: NDArray[np.floating[Any]]) -> Floats:
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.asarray(vectors / lengths, np.float32)


def _between(placed: Floats, targets: Floats, share: float) -> Floats:
    """So far on the way from where documents are placed to their targets, at length 1."""
    return _unit((1 - share) * placed + share * targets)


def _rounded(vectors: Floats) -> Floats:
    """In the half precision they are saved in."""
    return vectors.astype(np.float16).astype(np.float32)
