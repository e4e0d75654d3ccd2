"""The floor: every document gets the labels that training documents have most often.

train ─ label frequency ─ share of documents ─ the same ranking for everyone
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ontodex.errors import RunError
from ontodex.types import Corpus, LabelSpace, Ranking


@dataclass(frozen=True)
class PopularityConfig:
    """Popularity has no settings."""


class Popularity:
    """P(label) = its share of the training documents. A system no better has learned nothing."""

    Config = PopularityConfig

    def __init__(self, config: PopularityConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.labels: LabelSpace | None = None

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.labels = labels

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        if self.labels is None:
            raise RunError("popularity was asked to rank before it was fitted")
        share = self.labels.frequency[: self.labels.n_seen] / max(self.labels.n_docs, 1)
        one = Ranking.top(share[None, :], k)
        return one.take(np.zeros(len(corpus), dtype=np.int64))

    def save(self, folder: Path) -> None:
        """Nothing to write: labels.tsv of the run folder holds the frequencies."""

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        model = cls(PopularityConfig(), device=device)
        model.labels = labels
        return model
