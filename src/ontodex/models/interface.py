"""The interface of every system: documents in, ranking out.

`Model` is what every system implements. The other protocols are optional abilities; callers ask for
them with `isinstance` on a system or, where no attribute is part of them, `issubclass` on its
class. A system's constructor takes its settings (the frozen dataclass in its `Config`) and a device
name, and nothing learned.

    Explains    weights of words for a label
    Updates     takes new documents without training
    Refits      trains again on train and dev together
    Resumes     continues an interrupted training
    Decides     predicts label sets by itself
    Describes   reports its levels, plots, pages and inputs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Illustration, PredictionResult, SetAttention, Span


class Model(Protocol):
    """A system that can be trained, can rank labels, and can be saved and loaded."""

    Config: ClassVar[type[Any]]

    def __init__(self, config: Any, *, device: str = "cpu") -> None: ...

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Train. `dev` may be empty; it selects the best epoch and calibrates probabilities."""

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        """Return the k best labels of each document. The answer for a document depends on no other
        document and on no batch size."""
        ...

    def save(self, folder: Path) -> None:
        """Write plain files (safetensors, JSON, TSV) into an existing folder."""

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        """Read the files that `save` wrote; the label space comes from the run folder."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A system that shows the words behind a label. It inherits from this class."""

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the pieces of the text that support a label (weight > 0) or are evidence against
        it, in text order."""
        ...

    def attend(self, doc: Doc, column: int) -> Sequence[Span] | None:
        """Return the attention of a label to each word; None where labels attend to no words."""
        return None


@runtime_checkable
class Updates(Protocol):
    """A system that takes new documents without training."""

    def update(self, corpus: Corpus, labels: LabelSpace) -> None:
        """Add documents, with labels perhaps never seen. `labels` keeps every old column and
        appends the new ones."""


@runtime_checkable
class Refits(Protocol):
    """A system that can be trained a second time with the choices that dev made in `fit`."""

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """Train from scratch on all documents, with every choice that dev made in `fit`."""


@runtime_checkable
class Resumes(Protocol):
    """A system that keeps files during its training, most of all checkpoints to continue from."""

    work: Path | None  # folder of checkpoints and log; None: training cannot be resumed


@runtime_checkable
class Decides(Protocol):
    """A system that predicts label sets by itself, without a rule of `ontodex.decide`."""

    def decide(self, corpus: Corpus) -> Ranking:
        """Return the label set of each document."""
        ...

    def predict(self, corpus: Corpus, k: int) -> PredictionResult:
        """Return the k best labels, the label sets and the standalone probabilities at once."""
        ...

    def explain_set(self, doc: Doc) -> SetAttention | None:
        """Return the steps in which the label set was generated; None where there were none."""
        ...

    def label_thresholds(self) -> NDArray[np.float64]:
        """Return the decision threshold of each column."""
        ...

    def learn_from_decisions(
        self, corpus: Corpus, accepted: csr_array, rejected: csr_array
    ) -> None:
        """Adapt the thresholds to labels (documents x columns) that people accepted and
        rejected."""


@runtime_checkable
class Describes(Protocol):
    """A system that reports its levels, plots, pages and inputs."""

    @classmethod
    def reads_keywords(cls, folder: Path) -> bool:
        """Return whether the system saved in `folder` was trained on authors' keywords, so that it
        predicts worse for documents without any."""
        ...

    def label_levels(self, labels: LabelSpace) -> NDArray[np.int32]:
        """Return the ontology level of every column, as the system uses it."""
        ...

    def illustrations(self) -> Sequence[Illustration]:
        """Return the plots of the system for report.html."""
        ...

    def report_pages(self) -> Mapping[str, str]:
        """Return the pages about the training for the run folder, HTML by file name."""
        ...
