"""The interface through which the service asks a run, and its implementation in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ontodex.runs.run import Run, predict
from ontodex.types import Corpus, Doc
from ontodex.types.answers import Explanation, PredictionResult


class Ranker(Protocol):
    """A run that predicts and explains, in this process or in another one."""

    def predict(self, docs: list[Doc]) -> PredictionResult:
        """Return the RANKS best labels, the label set and the standalone probabilities."""
        ...

    def explain(self, doc: Doc, label: str | None) -> Explanation: ...


class LocalRanker:
    """A run whose model is in this process."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def predict(self, docs: Sequence[Doc]) -> PredictionResult:
        return predict(self._run, Corpus.of(docs))

    def explain(self, doc: Doc, label: str | None) -> Explanation:
        return self._run.explain(doc, label)
