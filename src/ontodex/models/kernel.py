"""Kernel ridge regression: what an endlessly wide network would learn, by a formula.

document ─ landmarks ─ weights ─ a score a label            (landmarks.py)
  (n, d)     (n, m)     (m, l)       (n, l)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ontodex.config import build, check_seed
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.models.base import Span
from ontodex.models.landmarks import RIDGES, Equations, LandmarkConfig, Landmarks
from ontodex.models.neighbours import quality
from ontodex.models.sparse_rows import (
    as_rows,
    calibrated,
    load_about,
    save_about,
    spans,
    training_gold,
)
from ontodex.progress import track
from ontodex.types import Corpus, Doc, LabelSpace, Ranking


@dataclass(frozen=True)
class KernelConfig(LandmarkConfig, MatrixConfig):
    """Settings of `kernel`; the features' settings are among them."""

    seed: int = 1  # of the landmarks, where not all documents are

    def __post_init__(self) -> None:
        MatrixConfig.__post_init__(self)
        LandmarkConfig.__post_init__(self)
        check_seed(self)


class Kernel:
    """For corpora of up to some ten thousand documents; learned in seconds or minutes."""

    Config = KernelConfig

    def __init__(self, config: KernelConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.landmarks: Landmarks | None = None
        self.weights: NDArray[np.float32] = np.empty((0, 0), np.float32)  # (landmarks, labels)
        self.ridge = config.ridge or 0.3
        self.calibration = Calibration.none()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        equations = self._equations(train, labels)
        gold = labels.gold(dev)

        def judged(ridge: float) -> float:
            self.weights = equations.at(ridge).weights()
            return quality(gold, self._rank(dev, 5))

        if not self.config.ridge and gold.nnz:
            found = {ridge: judged(ridge) for ridge in track(RIDGES, "solving", len(RIDGES))}
            self.ridge = max(found, key=found.__getitem__)
        self.weights = equations.at(self.ridge).weights()
        self.calibration = calibrated(self._rank, dev, gold)

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        self.weights = self._equations(train, labels).at(self.ridge).weights()

    def _equations(self, train: Corpus, labels: LabelSpace) -> Equations:
        gold, rows = training_gold(train, labels), as_rows(self.features.fit(train))
        weigh, seed = train.kind == "sparse", self.config.seed
        self.landmarks = Landmarks.of(rows, self.config, weigh_by_count=weigh, seed=seed)
        return self.landmarks.equations(rows, gold)

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        landmarks, rows = self._fitted(), as_rows(self.features.transform(corpus))
        found = [
            Ranking.top(np.clip(landmarks.near(rows[part]) @ self.weights, 0, 1), k)
            for part in landmarks.parts(rows.shape[0])
        ]
        return Ranking.join(found, k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Value x gradient of the label's score."""
        landmarks = self._fitted()
        if column >= self.weights.shape[1]:
            return []
        row = as_rows(self.features.transform(Corpus.of([doc])))
        return spans(self.features, doc, landmarks.slope(row, self.weights[:, column]))

    def save(self, folder: Path) -> None:
        self._fitted().save(folder, self.weights)
        self.features.save(folder)
        save_about(folder, self.config, self.calibration, ridge=self.ridge)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_about(folder)
        model = cls(build(KernelConfig, about["config"], "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        shape = (model.features.n_features, labels.n_seen)
        model.landmarks, model.weights = Landmarks.load(folder, model.config, shape)
        model.calibration, model.ridge = about["calibration"], float(about["ridge"])
        return model

    def _fitted(self) -> Landmarks:
        if self.landmarks is None:
            raise RunError("kernel was asked before it was fitted")
        return self.landmarks


__all__ = ["Kernel", "KernelConfig"]
