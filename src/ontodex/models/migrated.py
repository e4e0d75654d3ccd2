"""`migrated`: a trained system in the columns of a newer version of its vocabulary.

    old system ─ old columns ─ columns of the new version ┐
    names ─ only concepts that have no document yet ──────┴─ ranking

`ontodex migrate` writes it. The old system answers as before; its columns go to the concepts that
took the place of the old ones. Of several columns that were merged, the highest probability counts.
Concepts that are new in the vocabulary are found by their names, until a training has documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import ConfigError, RunError
from ontodex.io.tensors import TensorSpec, load_tensors, save_tensors
from ontodex.models.consensus.members import Member, copy_member, find_system, read_member
from ontodex.models.interface import Describes, Explains
from ontodex.ontology.levels import compute_label_levels
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Illustration, Span

MAX_EXTRA = 100  # ranks asked for in place of columns that are gone


@dataclass(frozen=True)
class MigratedConfig:
    """Settings of `migrated`: none."""


class Migrated(Explains):
    """A trained system whose columns are mapped to another label space."""

    Config: ClassVar[type[MigratedConfig]] = MigratedConfig

    member: Member
    names: Member | None  # finds labels without an old column by their names
    labels: LabelSpace
    columns: NDArray[np.int64]  # the new column of each old one, -1 where it is gone
    _is_new: NDArray[np.bool_]  # columns without an old one; the last entry is for padding
    _n_extra: int

    def __init__(self, config: MigratedConfig, *, device: str = "cpu") -> None:
        self.config = config

    @classmethod
    def of(
        cls,
        member: Member,
        labels: LabelSpace,
        columns: NDArray[np.int64],
        names: Member | None = None,
    ) -> Self:
        """Wrap a loaded run; `names` has the new label space."""
        model = cls(MigratedConfig())
        model.member, model.names, model.labels, model.columns = member, names, labels, columns
        model._is_new = np.ones(len(labels) + 1, bool)
        model._is_new[columns] = False
        model._is_new[-1] = False  # padding
        n_lost = len(columns) - len(np.unique(columns[columns >= 0]))
        model._n_extra = min(n_lost, MAX_EXTRA)
        return model

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        raise ConfigError(
            "migrated is not trained: `ontodex migrate RUN NEW --out RUN2` writes it",
            hint="name another --model",
        )

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        wanted = min(k + self._n_extra, len(self.member.labels))
        ranking = self.member.model.rank(corpus, wanted)
        parts = [_list_pairs(ranking, np.append(self.columns, -1))]
        if self.names is not None:
            own = np.where(self._is_new, np.arange(len(self.labels) + 1), -1)
            parts.append(_list_pairs(self.names.model.rank(corpus, k), own))
        rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Ranking.of_sparse(self._keep_best(rows, columns, values, len(corpus)), k)

    def _keep_best(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: NDArray[np.float32],
        n_docs: int,
    ) -> csr_array:
        """Return (documents x columns) with the highest value of each pair."""
        order = np.lexsort((-values, columns, rows))
        rows, columns, values = rows[order], columns[order], values[order]
        is_first = np.diff(rows * len(self.labels) + columns, prepend=-1) != 0
        indptr = np.searchsorted(rows[is_first], np.arange(n_docs + 1))
        shape = (n_docs, len(self.labels))
        return csr_array((values[is_first], columns[is_first], indptr), shape=shape)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the spans of the system that ranks this label."""
        own = np.flatnonzero(self.columns == column)
        source = self.member if len(own) else self.names
        if source is None or not isinstance(source.model, Explains):
            raise RunError(f"the system of this run cannot explain {self.labels.ids[column]!r}")
        if not len(own):
            return source.model.explain(doc, column)
        if len(own) == 1:
            return source.model.explain(doc, int(own[0]))
        ranking = source.model.rank(Corpus.of([doc]), len(source.labels))
        ranked = [found for found in ranking.columns[0].tolist() if found in own]
        return source.model.explain(doc, ranked[0] if ranked else int(own[0]))

    def save(self, folder: Path) -> None:
        """Write the map of columns and copies of both systems."""
        save_tensors(folder, "columns", {"columns": self.columns})
        copy_member(self.member.folder, folder / "member")
        if self.names is not None:
            copy_member(self.names.folder, folder / "names")

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        member = read_member(folder / "member", device=device)
        largest = max(len(labels) - 1, 0)
        specs = {"columns": TensorSpec(("old",), "int", minimum=-1, maximum=largest)}
        columns = load_tensors(folder, "columns", specs, {"old": len(member.labels)})["columns"]
        has_names = (folder / "names").is_dir()
        names = read_member(folder / "names", device=device) if has_names else None
        if names is not None and names.labels.ids != labels.ids:
            raise RunError(f"{folder / 'names'}: has other labels than the run")
        return cls.of(member, labels, columns.astype(np.int64), names)

    @classmethod
    def reads_keywords(cls, folder: Path) -> bool:
        """Return whether the old system was trained on authors' keywords."""
        system = find_system(folder / "member")
        return issubclass(system, Describes) and system.reads_keywords(folder / "member" / "model")

    def label_levels(self, labels: LabelSpace) -> NDArray[np.int32]:
        """Return the level of every column in the new version of the ontology."""
        return compute_label_levels(labels)

    def illustrations(self) -> Sequence[Illustration]:
        """Return no plots: those of the old system are about old columns."""
        return ()

    def report_pages(self) -> dict[str, str]:
        return {}


def _list_pairs(
    ranking: Ranking, columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return (row, mapped column, probability) of the entries whose column is mapped."""
    mapped = columns[ranking.columns]  # padding (-1) reads the last entry, which is -1
    rows, ranks = np.nonzero(mapped >= 0)
    return rows, mapped[rows, ranks], ranking.probabilities[rows, ranks]
