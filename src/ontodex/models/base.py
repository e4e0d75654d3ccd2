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
class Decides(Protocol):
    def decide(self, corpus: Corpus) -> Ranking:
        """The system's own label set for each document."""
        ...


@runtime_checkable
class Illustrates(Protocol):
    def illustrations(self) -> Sequence[Illustration]:
        """What the system draws of itself for report.html."""
        ...
