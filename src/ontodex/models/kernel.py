"""Kernel ridge regression: what an endlessly wide network would learn, by a formula.

    document ─ cosine with each landmark ─ exp(w (cosine - 1)) ─ weights ─ a score a label
      (n, d)            (n, m)                   (n, m)           (m, l)        (n, l)

Landmarks are the training documents; where there are more than `landmarks`, so many of them, drawn
by seed, stand for all (Nyström). Weights solve one set of linear equations for all labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.tfidf import unit_rows
from ontodex.models.base import Span
from ontodex.models.neighbours import quality
from ontodex.models.sparse_rows import (
    as_rows,
    blocks,
    calibrated,
    load_about,
    load_rows,
    product,
    save_about,
    save_rows,
    spans,
    training_gold,
)
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

Floats = NDArray[np.floating[Any]]

_RIDGES = (0.1, 0.3, 1.0, 3.0)  # tried on dev
_TOGETHER = 2**24  # similarities that are held at once (64 MiB)


@dataclass(frozen=True)
class KernelConfig(MatrixConfig):
    """Settings of `kernel`; the features' settings are among them."""

    width: float = 2.0  # w: how fast likeness fades as the angle between documents grows
    ridge: float = 0.0  # what large weights cost; 0 = the best of a few on dev (0.3 without dev)
    landmarks: int = 16_384
    seed: int = 1  # of the landmarks, where not all documents are

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width <= 0 or self.ridge < 0 or self.landmarks < 1:
            raise ValueError("width must be above 0, ridge not below it, landmarks at least 1")


@dataclass(frozen=True, eq=False)
class Equations:
    """(left + ridge x penalty) weights = right."""

    left: Floats  # (m, m)
    penalty: Floats  # (m, m)
    right: Floats  # (m, l)

    def solve(self, ridge: float) -> NDArray[np.float32]:
        factor = cho_factor(
            self.left + ridge * self.penalty, lower=True, overwrite_a=True, check_finite=False
        )
        return np.asarray(cho_solve(factor, self.right, check_finite=False), np.float32)


class Kernel:
    """For corpora of up to some ten thousand documents; learned in seconds or minutes."""

    Config = KernelConfig

    def __init__(self, config: KernelConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.rarity: NDArray[np.float32] = np.empty(0, np.float32)  # a factor for each feature
        self.memory: csr_array | None = None  # (landmarks, features), rows of length 1
        self.weights: NDArray[np.float32] = np.empty((0, 0), np.float32)  # (landmarks, labels)
        self.ridge = config.ridge or 0.3
        self.calibration = Calibration.none()

    # -------------------------------------------------------------------------------------- fit

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        equations = self._equations(train, labels)
        gold = labels.gold(dev)

        def judged(ridge: float) -> float:
            self.weights = equations.solve(ridge)
            return quality(gold, self._rank(dev, 5))

        if not self.config.ridge and gold.nnz:
            self.ridge = max(_RIDGES, key=judged)
        self.weights = equations.solve(self.ridge)
        self.calibration = calibrated(self._rank, dev, gold)

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        self.weights = self._equations(train, labels).solve(self.ridge)

    def _equations(self, train: Corpus, labels: LabelSpace) -> Equations:
        """With every document a landmark, K + ridge I; else those of Nyström's method."""
        gold = training_gold(train, labels)
        rows = as_rows(self.features.fit(train))
        self.rarity = _rarity(rows, by_count=train.kind == "sparse")
        rows, n = self._scaled(rows), rows.shape[0]
        if n <= self.config.landmarks:
            self.memory = rows
            near = np.concatenate([self._near(rows[part]) for part in self._parts(n)])
            return Equations(near, np.eye(n, dtype=np.float32), gold.toarray().astype(np.float32))
        drawn = np.random.default_rng(self.config.seed).permutation(n)[: self.config.landmarks]
        self.memory = rows[np.sort(drawn)]
        m = self.memory.shape[0]
        left, right = np.zeros((m, m)), np.zeros((m, labels.n_seen))
        for part in self._parts(n):
            near = self._near(rows[part])
            left += near.T @ near
            right += (gold[part].T.astype(np.float32) @ near).T
        return Equations(left, self._near(self.memory).astype(np.float64), right)

    # ------------------------------------------------------------------------------------- rank

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        rows = self._scaled(as_rows(self.features.transform(corpus)))
        found = [
            Ranking.top(np.clip(self._near(rows[part]) @ self.weights, 0, 1), k)
            for part in self._parts(rows.shape[0])
        ]
        return Ranking.join(found, k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Value x gradient of the label's score."""
        memory = self._fitted()
        if column >= self.weights.shape[1]:
            return []
        row = self._scaled(as_rows(self.features.transform(Corpus.of([doc]))))
        pull = self.config.width * self._near(row) * self.weights[:, column]  # (1, m)
        return spans(self.features, doc, csr_array(csr_array(pull) @ memory))

    def _near(self, rows: csr_array) -> NDArray[np.float32]:
        """(n, m): 1 for documents that point the same way as a landmark."""
        similarity = product(rows, self._fitted())
        return np.asarray(np.exp(np.float32(self.config.width) * (similarity - 1)))

    def _scaled(self, rows: csr_array) -> csr_array:
        scaled = csr_array((rows.data * self.rarity[rows.indices], rows.indices, rows.indptr),
                           shape=rows.shape)  # fmt: skip
        return unit_rows(scaled)

    def _parts(self, n: int) -> list[slice]:
        return blocks(n, max(1, _TOGETHER // max(1, self._fitted().shape[0])))

    # --------------------------------------------------------------------------------- the files

    def save(self, folder: Path) -> None:
        more = {"rarity": self.rarity, "weights": self.weights}
        save_rows(folder, "memory", self._fitted(), **more)
        self.features.save(folder)
        save_about(folder, self.config, self.calibration, ridge=self.ridge)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_about(folder)
        model = cls(build(KernelConfig, about["config"], "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.memory, arrays = load_rows(folder, "memory")
        model.rarity, model.weights = arrays["rarity"], arrays["weights"]
        model.calibration, model.ridge = about["calibration"], float(about["ridge"])
        shape = (len(model.weights), len(model.rarity))
        fits = model.memory.shape == shape and model.rarity.shape == (model.features.n_features,)
        if not fits or model.weights.shape[1] != labels.n_seen:
            raise RunError(f"{folder}: the weights do not fit the labels and features beside them")
        return model

    def _fitted(self) -> csr_array:
        if self.memory is None:
            raise RunError("kernel was asked before it was fitted")
        return self.memory


def _rarity(rows: csr_array, *, by_count: bool) -> NDArray[np.float32]:
    """The root of each feature's inverse document frequency; text has been weighted by it, and of
    dense features every document has all."""
    if not by_count:
        return np.ones(rows.shape[1], np.float32)
    often = np.bincount(rows.indices, minlength=rows.shape[1])
    return np.sqrt(1 + np.log((1 + rows.shape[0]) / (1 + often))).astype(np.float32)


__all__ = ["Equations", "Kernel", "KernelConfig"]
