"""The ranking of a migrated run, by hand: mapped columns, merged ones, padding and new concepts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ontodex.models.interface import Explains
from ontodex.models.migrated import Migrated
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

DOCS = Corpus.of([Doc("1", {"text": "one"}), Doc("2", {"text": "two"})])


@dataclass(frozen=True)
class Planted:
    """A member whose system gives one ranking, cut to what it is asked for."""

    labels: LabelSpace
    ranking: Ranking
    folder: Path = Path()

    @property
    def model(self) -> Planted:
        return self

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.ranking.cut(k)


def make_labels(*ids: str) -> LabelSpace:
    return LabelSpace(ids, np.ones(len(ids), np.int64), 10)


def make_member(ids: str, columns: list[list[int]], probabilities: list[list[float]]) -> Planted:
    values = np.array(probabilities, np.float32)
    return Planted(make_labels(*ids), Ranking(np.array(columns, np.int32), values))


OLD = make_member("abcd", [[0, 1, 3, 2], [2, -1, -1, -1]], [[0.8, 0.6, 0.5, 0.25], [0.75, 0, 0, 0]])
# a and b are merged into column 1, c is gone, d is column 0; column 2 is new.
COLUMNS = np.array([1, 1, -1, 0])
LABELS = make_labels("d", "ab", "new")


def test_merged_labels_keep_the_higher_probability_and_lost_ones_leave_no_gap():
    ranking = Migrated.of(OLD, LABELS, COLUMNS).rank(DOCS, 2)
    np.testing.assert_array_equal(ranking.columns, [[1, 0], [-1, -1]])
    np.testing.assert_allclose(ranking.probabilities, [[0.8, 0.5], [0, 0]])


def test_names_are_asked_for_new_concepts_alone():
    names = make_member("dan", [[1, 2, 0], [2, -1, -1]], [[0.9, 0.7, 0.6], [0.5, 0, 0]])
    ranking = Migrated.of(OLD, LABELS, COLUMNS, names).rank(DOCS, 3)
    np.testing.assert_array_equal(ranking.columns, [[1, 2, 0], [2, -1, -1]])
    np.testing.assert_allclose(ranking.probabilities, [[0.8, 0.7, 0.5], [0.5, 0, 0]])


class ExplainedColumns(Planted, Explains):
    """A member that answers with the column that it is asked about, as a weight."""

    def explain(self, doc: Doc, column: int) -> list[Span]:
        return [Span(0, 1, float(column))]


def test_a_label_is_explained_by_its_old_column_and_a_new_one_by_its_own():
    member = ExplainedColumns(OLD.labels, OLD.ranking)
    names = ExplainedColumns(LABELS, OLD.ranking)
    migrated = Migrated.of(member, LABELS, COLUMNS, names)
    weights = [migrated.explain(DOCS[0], column)[0].weight for column in range(3)]
    assert weights == [3, 0, 2]  # d; a, which ranks before b; the new one
