"""k nearest neighbours: a document gets the labels of the training documents most like it.

    document ─ cosine with every training document ─ the k nearest ─ their labels, weighted
       (n, d)              (n, m)                        (n, k)               (n, l)

Exact: every similarity is computed, in blocks, on the sparse rows. How the neighbours vote:
neighbours.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from ontodex.config import build
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.tfidf import unit_rows
from ontodex.models.base import Span
from ontodex.models.neighbours import Neighbours, best_vote, joined, remembered
from ontodex.models.sparse_rows import (
    CALIBRATION_RANKS,
    as_rows,
    blocks,
    in_threads,
    load_about,
    load_rows,
    product,
    save_about,
    save_rows,
    spans,
)
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

_SIMILARITIES_TOGETHER = 2**23  # of one thread (32 MiB)
_NEIGHBOURS = (5, 10, 20, 40)  # tried on dev
_EXPONENTS = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class KnnConfig(MatrixConfig):
    """Settings of `knn`; the features' settings are among them."""

    neighbours: int = 0  # 0 = the best of a few on dev (20 without dev)
    exponent: float = 0.0  # of a neighbour's similarity; 0 = the best of a few on dev (2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours < 0 or self.exponent < 0:
            raise ValueError("neighbours and exponent must not be negative")


class Knn:
    """Learns nothing but what to look at; new documents count at once."""

    Config = KnnConfig

    def __init__(self, config: KnnConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.memory: csr_array | None = None  # (training documents, features), rows of length 1
        self.gold: csr_array = csr_array(
            np.zeros((0, 0), np.float32)
        )  # (training documents, labels)
        self.neighbours = config.neighbours or 20
        self.exponent = config.exponent or 2.0
        self.calibration = Calibration.none()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.refit(train, labels)
        if len(dev):
            self._tune(dev, labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        self.memory = unit_rows(as_rows(self.features.fit(train)))
        self.gold = remembered(train, labels)

    def _tune(self, dev: Corpus, gold: csr_array) -> None:
        """Choose neighbours and exponent with the highest nDCG@5, the smaller ones among equals,
        and calibrate."""
        counts = (self.config.neighbours,) if self.config.neighbours else _NEIGHBOURS
        exponents = (self.config.exponent,) if self.config.exponent else _EXPONENTS
        nearest = self._nearest(dev, max(counts))
        if gold.nnz:
            chosen = best_vote(nearest, self.gold, gold, counts, exponents)
            self.neighbours, self.exponent = chosen
        ranking = nearest.vote(self.gold, self.neighbours, self.exponent, CALIBRATION_RANKS)
        self.calibration = Calibration.fit(ranking, gold)

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        nearest = self._nearest(corpus, self.neighbours)
        return nearest.vote(self.gold, self.neighbours, self.exponent, k)

    def _nearest(self, corpus: Corpus, k: int) -> Neighbours:
        memory = self._fitted()
        rows = unit_rows(as_rows(self.features.transform(corpus)))
        kept = min(k, memory.shape[0])

        def nearest(part: slice) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            similarity = product(rows[part], memory)
            places = np.argpartition(-similarity, kept - 1, axis=1)[:, :kept]
            values = np.take_along_axis(similarity, places, axis=1)
            order = np.lexsort((places, -values), axis=1)
            return np.take_along_axis(places, order, 1), np.take_along_axis(values, order, 1)

        size = max(1, _SIMILARITIES_TOGETHER // memory.shape[0])
        found = list(in_threads(nearest, blocks(rows.shape[0], size)))
        docs, similarity = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return Neighbours(docs, similarity)

    def update(self, corpus: Corpus, labels: LabelSpace) -> None:
        """New documents vote from now on, for new labels too."""
        rows = unit_rows(as_rows(self.features.transform(corpus)))
        self.memory = csr_array(vstack([self._fitted(), rows], format="csr"))
        self.gold = joined(self.gold, corpus, labels)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Value x mean value in the neighbours that have the label, by their share of the vote."""
        nearest = self._nearest(Corpus.of([doc]), self.neighbours)
        votes = nearest.votes(self.neighbours, self.exponent, self.gold.shape[0])
        has_label = self.gold[:, [column]].toarray()[:, 0]
        votes.data *= has_label[votes.indices]
        return spans(self.features, doc, csr_array(votes @ self._fitted()))

    def save(self, folder: Path) -> None:
        save_rows(folder, "memory", self._fitted())
        save_rows(folder, "gold", self.gold)
        self.features.save(folder)
        chosen = {"neighbours": self.neighbours, "exponent": self.exponent}
        save_about(folder, self.config, self.calibration, chosen=chosen)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_about(folder)
        model = cls(build(KnnConfig, about["config"], "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.memory, _ = load_rows(folder, "memory")
        model.gold, _ = load_rows(folder, "gold")
        model.calibration = about["calibration"]
        model.neighbours = int(about["chosen"]["neighbours"])
        model.exponent = float(about["chosen"]["exponent"])
        fits = model.gold.shape == (model.memory.shape[0], len(labels))
        if not fits or model.memory.shape[1] != model.features.n_features:
            raise RunError(f"{folder}: the memory does not fit the labels and features beside it")
        return model

    def _fitted(self) -> csr_array:
        if self.memory is None:
            raise RunError("knn was asked before it was fitted")
        return self.memory
