"""Runs side by side: the numbers are those of `evaluate`, whatever columns the labels have."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.corpora.open import write_docs
from ontodex.decide.config import DecideConfig
from ontodex.decide.decision import Decision
from ontodex.decide.threshold import Threshold
from ontodex.errors import ConfigError, DataError
from ontodex.runs.compare import (
    common_labels,
    compare,
    consensus_of,
    save_consensus,
)
from ontodex.runs.evaluate import evaluate
from ontodex.runs.recipe import train
from ontodex.runs.run import Run
from ontodex.runs.settings import resolve
from ontodex.types import Corpus, Doc, LabelSpace, Ranking


@dataclass
class Fixed:
    """A system that gives every document the probabilities of its id."""

    labels: LabelSpace
    says: dict[str, dict[str, float]] = field(default_factory=dict)

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        rows = np.zeros((len(corpus), len(self.labels)))
        for row, doc in enumerate(corpus):
            for label, probability in self.says[doc.id].items():
                rows[row, self.labels.column[label]] = probability
        return Ranking.top(rows, k)


def fixed(ids: str, says: dict[str, dict[str, float]], *, frequency: int = 1) -> Run:
    labels = LabelSpace(tuple(ids), np.full(len(ids), frequency), 10)
    model: Any = Fixed(labels, says)
    settings = resolve({"model": {"name": "popularity"}})
    decision = Decision(DecideConfig(rule="threshold"), Threshold(0.5))
    return Run(Path("nowhere"), {}, settings, labels, model, decision)


DOCS = Corpus.of(
    [
        Doc("1", {"text": "x"}, (), ("a", "b")),
        Doc("2", {"text": "y"}, (), ("c",)),
        Doc("3", {"text": "without labels"}),
    ]
)
# one: a right, c missed (b first)      two: knows c but not b, columns in another order
ONE = fixed("abc", {"1": {"a": 0.9, "c": 0.6}, "2": {"b": 0.8, "a": 0.1, "c": 0.05}, "3": {}})
TWO = fixed("dca", {"1": {"d": 0.7, "a": 0.6}, "2": {"c": 0.9}, "3": {}}, frequency=3)


def test_metrics_by_hand_with_different_label_spaces():
    found = compare({"one": ONE, "two": TWO}, DOCS)
    assert (found.documents, found.without_gold) == (2, 1)
    # P@1: one hits document 1 only, two document 2 only. Top 3: one has a, c, b of {a, b}: 2 hits,
    # and c of {c}: 1, so (2/3 + 1/3) / 2; two has a, and c: (1/3 + 1/3) / 2.
    assert found.values["P@1"] == (0.5, 0.5)
    assert found.values["P@3"] == pytest.approx((0.5, 1 / 3))
    # Sets from 0.5 on: one {a, c}, {b}: 1 hit of 3 chosen and 3 true; two {d, a}, {c}: 2 of 3.
    assert found.values["MiF"] == pytest.approx((1 / 3, 2 / 3))


def test_a_label_that_a_run_does_not_know_counts_as_missed():
    blind = fixed("d", {"1": {"d": 1.0}, "2": {"d": 1.0}, "3": {}})
    found = compare({"one": ONE, "blind": blind}, DOCS)
    assert found.values["P@5"][1] == 0
    assert found.values["nDCG@5"][1] == 0


def test_ranks_share_ties_and_the_best_is_first():
    found = compare({"one": ONE, "two": TWO}, DOCS)
    # P@1 is a tie (1.5 each), P@3 and P@5 go to one: (1.5 + 1 + 1) / 3
    assert found.average_rank["P@k"] == pytest.approx((3.5 / 3, 5.5 / 3))


def test_overlap_is_of_concepts_and_not_of_columns():
    pair = compare({"one": ONE, "two": TWO}, DOCS).pairs[0]
    # Top 1: a and d, b and c: nothing in common. Top 2 of document 1: {a, c} and {d, a}: one half;
    # of document 2 {b, a} and {c, ...}: what follows c has probability 0, column order: d.
    assert pair.overlap["top 1"] == 0
    assert pair.overlap["top 2"] == pytest.approx((1 / 2 + 0) / 2)


def test_a_run_compared_with_itself_has_no_difference():
    found = compare({"one": ONE, "again": ONE}, DOCS)
    for metric, (difference,) in found.differences.items():
        assert (difference.estimate, difference.low, difference.high) == (0, 0, 0), metric
    assert found.pairs[0].overlap["top 5"] == pytest.approx(3 / 5)  # of three labels, by divisor k
    assert set(found.pairs[0].wilcoxon.values()) == {1.0}


def test_differences_are_the_later_system_minus_the_first():
    found = compare({"one": ONE, "two": TWO}, DOCS)
    assert found.differences["P@3"][0].estimate == pytest.approx(1 / 3 - 1 / 2)
    assert found.differences["MiF"][0].estimate == pytest.approx(2 / 3 - 1 / 3)


def test_common_labels_hold_every_label_once_with_its_highest_count():
    labels = common_labels([ONE.labels, TWO.labels])
    assert labels.ids == ("a", "b", "c", "d")
    assert labels.frequency.tolist() == [3, 1, 3, 3]


def test_the_consensus_is_equation_9_over_the_union():
    both = consensus_of([ONE, TWO])
    scores = both.rank(DOCS, 4).scores(4).toarray()[0]
    # a: 1 - 0.1 * 0.4    c: 0.6 against 0    d: 0.7
    assert scores == pytest.approx([0.96, 0, 0.6, 0.7])


def test_one_run_or_no_labels_cannot_be_compared():
    with pytest.raises(ConfigError, match="two runs or more"):
        compare({"one": ONE}, DOCS)
    with pytest.raises(DataError, match=r"no document \(of 1\) has a label"):
        compare({"one": ONE, "two": TWO}, DOCS.select([2]))


WORDS = {"fish": "trout river", "oak": "leaf bark", "bread": "oven crust"}
TRAIN = Corpus.of(
    Doc(str(i), {"title": f"{words} number {i % 7}"}, (), (label,) if i % 4 else (label, "fish"))
    for i, (label, words) in enumerate(list(WORDS.items()) * 12)
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("runs")
    for name in ("popularity", "knn"):
        train(config={"model": {"name": name}}, out=base / name, train=TRAIN)
    return [base / "popularity", base / "knn"]


def test_metrics_equal_those_of_evaluate(folders):
    found = compare(folders, TRAIN)
    for column, folder in enumerate(folders):
        alone = evaluate(folder, TRAIN)
        for metric, row in found.values.items():
            assert row[column] == pytest.approx(alone[metric], abs=1e-12), metric


def test_a_saved_consensus_is_a_run_without_paths_of_this_machine(folders, tmp_path):
    kept = save_consensus(folders, tmp_path / "both", train=TRAIN)
    added = compare(folders, TRAIN, consensus=True)
    again = compare([*folders, tmp_path / "both"], TRAIN)
    assert again.values["nDCG@5"] == pytest.approx(added.values["nDCG@5"])
    assert kept.settings.name == "consensus"
    assert "members" not in (tmp_path / "both" / "config.toml").read_text()
    for path in (tmp_path / "both").rglob("*"):
        assert path.is_dir() or str(folders[0].parent).encode() not in path.read_bytes(), path


def test_the_command_prints_tables_and_json(folders, tmp_path):
    test = tmp_path / "test.jsonl"
    write_docs(TRAIN, test, "jsonl")
    words = ["compare", *map(str, folders), "--corpus", str(test), "--consensus"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0
    head = shown.stdout.splitlines()[1].split()
    assert head == ["popularity", "knn", "consensus"]
    record = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert record["systems"]["knn"]["P@1"] > record["systems"]["popularity"]["P@1"]
    assert record["minus_first"]["knn"]["P@1"]["estimate"] > 0
    assert len(record["pairs"]) == 3


def test_the_markdown_is_one_table_a_question(folders):
    text = compare(folders, TRAIN).markdown()
    assert text.count("| --- |") == 3
    assert "| P@1 |" in text


def test_saving_a_consensus_needs_all_of_its_options(folders, tmp_path):
    test = tmp_path / "test.jsonl"
    write_docs(TRAIN, test, "jsonl")
    words = ["compare", *map(str, folders), "--on", str(test)]
    for more in (["--out", "x"], ["--consensus", "--out", "x"], ["--train", str(test)]):
        result = CliRunner().invoke(app, [*words, *more])
        assert isinstance(result.exception, ConfigError)
        assert "--out and --train go together" in str(result.exception)


def test_runs_of_the_same_name_are_shown_by_path_and_the_same_run_is_refused(folders, tmp_path):
    other = tmp_path / "knn"
    train(config={"model": {"name": "popularity"}}, out=other, train=TRAIN)
    found = compare([folders[1], other], TRAIN)
    assert found.systems == (str(folders[1]), str(other))
    with pytest.raises(ConfigError, match="named twice"):
        compare([folders[0], folders[0]], TRAIN)


def test_texts_in_another_language_are_warned_of_once_for_each_language(tmp_path, caplog):
    finnish = "Järvessä on kaloja ja ne ovat myös tärkeitä, mutta se ei ole kaikki."
    docs = [Doc(str(i), {"text": f"{finnish} {i}"}, (), ("kala",)) for i in range(4)]
    for name, language in (("one", "en"), ("two", "en"), ("three", "fi")):
        train("popularity", train=Corpus.of(docs), language=language, out=tmp_path / name)
    caplog.clear()
    compare([tmp_path / name for name in ("one", "two", "three")], Corpus.of(docs), consensus=True)
    (warning,) = [record.message for record in caplog.records if "languages" in record.message]
    assert warning.startswith("one, two: 4 of 4 texts seem to be in other languages, most in Finn")
