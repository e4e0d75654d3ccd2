"""What a run answers, and a run that answers in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ontodex.run import RANKS, Explanation, Run
from ontodex.types import Corpus, Doc, Ranking


@dataclass(frozen=True)
class Ranked:
    """What a run says about documents: the best labels, and the set it would choose."""

    ranking: Ranking
    chosen: Ranking

    def take(self, start: int, stop: int | None = None) -> Ranked:
        """The answer for the documents from `start` (only that one, without `stop`)."""
        rows = slice(start, start + 1 if stop is None else stop)
        return Ranked(self.ranking.take(rows), self.chosen.take(rows))


class Ranker(Protocol):
    """A run, wherever its model is."""

    def rank(self, docs: list[Doc]) -> Ranked:
        """The RANKS best labels of each document, and its label set."""
        ...

    def explain(self, doc: Doc, label: str | None) -> Explanation: ...


class Local:
    """A run whose model is in this process."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def rank(self, docs: Sequence[Doc]) -> Ranked:
        corpus = Corpus.of(docs)
        ranking = self._run.rank(corpus, RANKS)
        return Ranked(ranking, self._run.decide(corpus, ranking))

    def explain(self, doc: Doc, label: str | None) -> Explanation:
        return self._run.explain(doc, label)
