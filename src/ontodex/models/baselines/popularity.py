"""Rank labels by their frequency in training: the lowest baseline.

train ─ label frequency ─ share of documents ─ the same ranking for every document
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ontodex.errors import UntrainedError
from ontodex.types import Corpus, LabelSpace, Ranking


@dataclass(frozen=True)
class PopularityConfig:
    """Popularity has no settings."""


class PopularitySystem:
    """P(label) = its share of the training documents."""

    Config = PopularityConfig

    def __init__(self, config: PopularityConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.labels: LabelSpace | None = None

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.labels = labels

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        self.labels = labels

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        if self.labels is None:
            raise UntrainedError("popularity")
        share = self.labels.frequency[: self.labels.n_seen] / max(self.labels.n_docs, 1)
        one = Ranking.top(share[None, :], k)
        return one.take(np.zeros(len(corpus), dtype=np.int64))

    def save(self, folder: Path) -> None:
        """Write nothing: labels.tsv of the run folder holds the frequencies."""

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        model = cls(PopularityConfig(), device=device)
        model.labels = labels
        return model
