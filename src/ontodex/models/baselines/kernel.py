"""Kernel ridge regression on landmark documents (landmarks.py): training solves one linear system.

document ─ kernel with landmarks ─ weights ─ score of each label
 (n, d)            (n, m)           (m, l)         (n, l)
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
from ontodex.errors import UntrainedError
from ontodex.features.matrix import LemmaConfig, MatrixFeatures
from ontodex.io.progress import track
from ontodex.models.baselines.landmarks import RIDGES, Equations, LandmarkConfig, Landmarks
from ontodex.models.baselines.model_json import ModelJson, load_model_json, save_model_json
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.baselines.sparse_rows import (
    calibrate_on_dev,
    select_seen_labels,
    to_csr,
    weigh_spans,
)
from ontodex.models.interface import Explains
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span


@dataclass(frozen=True)
class KernelConfig(LandmarkConfig, LemmaConfig):
    """Settings of `kernel`, including those of its features."""

    seed: int = 1  # of the draw of landmarks, where there are more documents than landmarks

    def __post_init__(self) -> None:
        LemmaConfig.__post_init__(self)
        LandmarkConfig.__post_init__(self)
        check_seed(self)


@dataclass(frozen=True)
class _KernelJson(ModelJson):
    """The fields of model.json."""

    ridge: float


class KernelSystem(Explains):
    """Kernel ridge regression; for corpora of up to some ten thousand documents."""

    Config = KernelConfig

    def __init__(self, config: KernelConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.landmarks: Landmarks | None = None
        self.weights: NDArray[np.float32] = np.empty((0, 0), np.float32)  # (landmarks, labels)
        self.ridge = config.ridge or 0.3
        self.calibration = Calibration.identity()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        equations = self._build_equations(train, labels)
        gold = labels.gold(dev)

        def evaluate(ridge: float) -> float:
            self.weights = equations.factorise(ridge).solve()
            return compute_ndcg(gold, self._rank(dev, 5))

        if not self.config.ridge and gold.nnz:
            scores = {ridge: evaluate(ridge) for ridge in track(RIDGES, "solving", len(RIDGES))}
            self.ridge = max(scores, key=scores.__getitem__)
        self.weights = equations.factorise(self.ridge).solve()
        self.calibration = calibrate_on_dev(self._rank, dev, gold)

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        self.weights = self._build_equations(train, labels).factorise(self.ridge).solve()

    def _build_equations(self, train: Corpus, labels: LabelSpace) -> Equations:
        gold, rows = select_seen_labels(train, labels), to_csr(self.features.fit(train))
        weigh, seed = train.kind == "sparse", self.config.seed
        self.landmarks = Landmarks.of(rows, self.config, weigh_by_count=weigh, seed=seed)
        return self.landmarks.build_equations(rows, gold)

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        landmarks, rows = self._require_landmarks(), to_csr(self.features.transform(corpus))
        rankings = [
            Ranking.top(np.clip(landmarks.compute_kernel(rows[block]) @ self.weights, 0, 1), k)
            for block in landmarks.make_blocks(rows.shape[0])
        ]
        return Ranking.join(rankings, k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return value x gradient of the label's score for each word."""
        landmarks = self._require_landmarks()
        if column >= self.weights.shape[1]:
            return []
        row = to_csr(self.features.transform(Corpus.of([doc])))
        gradient = landmarks.compute_gradient(row, self.weights[:, column])
        return weigh_spans(self.features, doc, gradient)

    def save(self, folder: Path) -> None:
        self._require_landmarks().save(folder, self.weights)
        self.features.save(folder)
        save_model_json(folder, self.config, self.calibration, ridge=self.ridge)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_model_json(folder, _KernelJson)
        model = cls(build(KernelConfig, about.config, "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        shape = (model.features.n_features, labels.n_seen)
        model.landmarks, model.weights = Landmarks.load(folder, model.config, shape)
        model.calibration, model.ridge = about.calibration, about.ridge
        return model

    def _require_landmarks(self) -> Landmarks:
        if self.landmarks is None:
            raise UntrainedError("kernel")
        return self.landmarks
