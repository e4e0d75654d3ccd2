"""What a run answers, and a run that answers in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ontodex.models.base import Ranked
from ontodex.run import Explanation, Run
from ontodex.types import Corpus, Doc


class Ranker(Protocol):
    """A run, wherever its model is."""

    def rank(self, docs: list[Doc]) -> Ranked:
        """The RANKS best labels of each document, its label set, and each label by itself."""
        ...

    def explain(self, doc: Doc, label: str | None) -> Explanation: ...


class Local:
    """A run whose model is in this process."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def rank(self, docs: Sequence[Doc]) -> Ranked:
        return self._run.ranked(Corpus.of(docs))

    def explain(self, doc: Doc, label: str | None) -> Explanation:
        return self._run.explain(doc, label)
