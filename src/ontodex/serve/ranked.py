"""What a run answers, and a run that answers in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ontodex.models.base import Decides
from ontodex.run import RANKS, Explanation, Run
from ontodex.types import Corpus, Doc, Ranking


@dataclass(frozen=True)
class Ranked:
    """What a run says about documents; `own` is the label set of a system that decides itself."""

    ranking: Ranking
    own: Ranking | None = None

    def take(self, start: int, stop: int | None = None) -> Ranked:
        """The answer for the documents from `start` (only that one, without `stop`)."""
        rows = np.arange(start, start + 1 if stop is None else stop)
        return Ranked(self.ranking.take(rows), None if self.own is None else self.own.take(rows))


class Ranker(Protocol):
    """A run, wherever its model is."""

    def rank(self, docs: list[Doc]) -> Ranked:
        """The RANKS best labels of each document."""
        ...

    def explain(self, doc: Doc, label: str | None) -> Explanation: ...


class Local:
    """A run whose model is in this process."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def rank(self, docs: Sequence[Doc]) -> Ranked:
        corpus = Corpus.of(docs)
        model = self._run.model
        own = model.decide(corpus) if isinstance(model, Decides) else None
        return Ranked(self._run.rank(corpus, RANKS), own)

    def explain(self, doc: Doc, label: str | None) -> Explanation:
        return self._run.explain(doc, label)
