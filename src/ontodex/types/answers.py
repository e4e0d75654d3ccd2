"""Answers about documents: plain data that systems return and that people are shown.

PredictionResult   rankings, label sets and standalone probabilities of many documents
Suggestion         one concept for one document, with its name and its place in the ontology
Explanation        the text of a document, with the words that support one label (Span)
SetAttention       the steps in which a system generated a label set
Illustration       a section with plots that a system adds to report.html (Panel)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ontodex.types.ranking import Ranking


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a document's text, by character offsets in `Doc.text`, and its weight."""

    start: int
    end: int
    weight: float  # above 0 it supports the label, below 0 it is evidence against it


@dataclass(frozen=True)
class Suggestion:
    """One concept for one document, with its name and its place in the ontology."""

    label: str
    name: str
    probability: float
    path: tuple[str, ...]  # names from the top of the ontology down to the concept
    notation: str = ""  # such as 02.6, if the ontology has one


@dataclass(frozen=True)
class DocumentSuggestions:
    """The suggestions for one document, with the predictions from which they were taken."""

    shown: Sequence[Suggestion]  # within the limit, and at least as probable as the threshold
    candidates: Sequence[Suggestion]  # before limit and threshold: label set or ranking
    standalone: Sequence[Suggestion]  # all ranked labels, with their standalone probabilities
    is_own_set: bool  # the candidates are a label set that the system predicted by itself

    @property
    def label_set(self) -> Sequence[Suggestion]:
        """Return the assigned labels: the system's whole label set, otherwise those shown."""
        return self.candidates if self.is_own_set else self.shown


@dataclass(frozen=True)
class Explanation:
    """The text of a document, with the spans that support one label or are evidence against it."""

    text: str
    label: str
    name: str
    probability: float
    spans: Sequence[Span]
    remark: str = ""  # why the probability is 0, where the label was never learned


@dataclass(frozen=True, eq=False)
class SetAttention:
    """The steps in which a system generated a label set: c candidates predicted by the levels, s
    labels selected one after the other, m levels."""

    predicted: NDArray[np.int64]  # (c,) columns, by level
    predicted_probabilities: NDArray[np.float32]  # (c,)
    predicted_levels: NDArray[np.int64]  # (c,), most general = 1
    chosen: NDArray[np.int64]  # (s,) columns, in the order they were selected
    chosen_probabilities: NDArray[np.float32]  # (s,)
    generated: NDArray[np.float64]  # (s,): probability of generating instead of copying
    attention: NDArray[np.float64]  # (s, c): attention of each step over the candidates
    level_attention: NDArray[np.float64]  # (s, m): the same, summed over the labels of a level
    coverage: NDArray[np.float64]  # (s, m): level attention summed over the steps so far


@dataclass(frozen=True)
class PredictionResult:
    """The predictions for some documents, each as a `Ranking` with one row a document."""

    ranking: Ranking  # the k best labels
    label_sets: Ranking  # the labels that are assigned
    standalone: Ranking  # the k best labels, without the lead of assigned labels in `ranking`

    def take(self, start: int, stop: int | None = None) -> PredictionResult:
        """Return the rows from `start` up to `stop`; only row `start` where `stop` is None."""
        rows = slice(start, start + 1 if stop is None else stop)
        return PredictionResult(
            self.ranking.take(rows), self.label_sets.take(rows), self.standalone.take(rows)
        )


@dataclass(frozen=True)
class Panel:
    """Lines of shares (0 to 1) over one x axis that starts at 0."""

    name: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Illustration:
    """A section of report.html that a system adds about itself."""

    title: str
    sentence: str
    x_name: str
    panels: Sequence[Panel]
