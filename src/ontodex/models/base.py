"""The one interface: documents in, ranking out. No base class, no hooks.

A system's constructor takes its settings (the frozen dataclass in its `Config`) and a device name,
nothing learned. What a system can do besides is asked with `isinstance` on the small protocols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluate.plots import Illustration
from ontodex.types import Corpus, Doc, LabelSpace, Ranking


class Model(Protocol):
    """What every system does."""

    Config: ClassVar[type[Any]]

    def __init__(self, config: Any, *, device: str = "cpu") -> None: ...

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Learn. `dev` may stop training early or calibrate, and may be empty."""

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        """The k best labels of each document. Pure: same documents, same answer, any batch size."""
        ...

    def save(self, folder: Path) -> None:
        """Write plain files (safetensors, JSON, TSV) into an existing folder."""

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        """Read back what `save` wrote; the label space comes from the run folder."""
        ...


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a document's text, by character offsets in `Doc.text`, and how much it speaks."""

    start: int
    end: int
    weight: float


@runtime_checkable
class Explains(Protocol):
    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """The pieces of the text that speak for (weight > 0) or against a label, in text order."""
        ...


@runtime_checkable
class ReadsKeywords(Protocol):
    @classmethod
    def reads_keywords(cls, folder: Path) -> bool:
        """Whether what `save` wrote there has learned from authors' keywords: documents without
        any are understood worse."""
        ...


@dataclass(frozen=True, eq=False)
class SetAttention:
    """How a system that emits a set came to it: c labels predicted by the levels, s labels chosen
    one after the other, m levels."""

    predicted: NDArray[np.int64]  # (c,) columns, by level
    predicted_probabilities: NDArray[np.float32]  # (c,)
    predicted_levels: NDArray[np.int64]  # (c,), most general = 1
    chosen: NDArray[np.int64]  # (s,) columns, in the order they were chosen
    chosen_probabilities: NDArray[np.float32]  # (s,)
    generated: NDArray[np.float64]  # (s,): how far a choice was generated rather than copied
    attention: NDArray[np.float64]  # (s, c): what each choice looked at
    level_attention: NDArray[np.float64]  # (s, m): the same, summed over the labels of a level
    coverage: NDArray[np.float64]  # (s, m): level attention summed over the choices so far


@runtime_checkable
class ExplainsSet(Protocol):
    @property
    def is_stepwise(self) -> bool:
        """Whether sets are chosen label by label, with the settings this one has."""
        ...

    def explain_set(self, doc: Doc) -> SetAttention:
        """How the label set of a document was chosen."""
        ...


@runtime_checkable
class Resumes(Protocol):
    """A long training that goes on after a kill; checkpoints and log go into `work`."""

    work: Path | None


@runtime_checkable
class Refits(Protocol):
    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """Learn again, from all documents, with everything that dev decided in `fit`."""


@runtime_checkable
class Updates(Protocol):
    def update(self, corpus: Corpus, labels: LabelSpace) -> None:
        """Take new documents, with labels perhaps never seen, without retraining.
        `labels` keeps every old column and appends the new ones."""


@runtime_checkable
class LearnsJudged(Protocol):
    """A system whose own thresholds, a number a column, learn from people's verdicts."""

    thresholds: NDArray[np.float64]

    def learn_judged(self, corpus: Corpus, accepted: csr_array, rejected: csr_array) -> None:
        """Learn from the labels (documents x columns) that were accepted and rejected."""


@runtime_checkable
class HasLevels(Protocol):
    def label_levels(self, labels: LabelSpace) -> NDArray[np.int32]:
        """The ontology level of every column, as the system sees it."""
        ...


@runtime_checkable
class Decides(Protocol):
    def decide(self, corpus: Corpus) -> Ranking:
        """The system's own label set for each document."""
        ...


@dataclass(frozen=True)
class Ranked:
    """What is said about documents: the best labels, the set that would be chosen, and how probable
    each label is by itself, without the lead that a chosen set may have in the ranking."""

    ranking: Ranking
    chosen: Ranking
    apart: Ranking

    def take(self, start: int, stop: int | None = None) -> Ranked:
        """The answer for the documents from `start` (only that one, without `stop`)."""
        rows = slice(start, start + 1 if stop is None else stop)
        return Ranked(self.ranking.take(rows), self.chosen.take(rows), self.apart.take(rows))


@runtime_checkable
class RanksAndDecides(Protocol):
    """A system that ranks and decides at one reading."""

    def rank_and_decide(self, corpus: Corpus, k: int) -> Ranked:
        """What `rank` and `decide` say, and the k best labels by themselves."""
        ...


@runtime_checkable
class Illustrates(Protocol):
    def illustrations(self) -> Sequence[Illustration]:
        """What the system draws of itself for report.html."""
        ...
