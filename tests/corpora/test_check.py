"""`check` finds the known faults of a corpus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.corpora.check import CheckReport, check
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.errors import DataError
from ontodex.types import Ontology
from ontodex.types.sparse_column import SparseColumn

# animal <- cat, dog; "loner" has no place; "hound" is deprecated for "dog"
ONTOLOGY = Ontology(
    ids=("animal", "cat", "dog", "loner", "hound"),
    names={"en": SparseColumn.of(["animal", "cat", "dog", "loner", "hound"], "")},
    parents=csr_array(
        (np.ones(2, np.int8), ([1, 2], [0, 0])),
        shape=(5, 5),
    ),
    deprecated=frozenset({"hound"}),
    replaced_by={"hound": "dog"},
    problems=("1 cycle was cut: cat > dog > cat",),
)
LINES = [
    '{"id": "1", "text": "the cat sat", "labels": ["cat", "animal"]}',
    '{"id": "2", "text": "the dog ran", "labels": ["dog", "dog"]}',
    '{"id": "3", "text": "cut off',
    '{"id": "2", "text": "an id again", "labels": ["hound"]}',
    '{"id": "5", "text": "the cat sat", "labels": ["unicorn"]}',
    '{"id": "6", "text": "  ", "labels": ["loner"]}',
    '{"id": "7", "text": "nothing said"}',
]


def found(report: CheckReport) -> dict[str, tuple[int, list[str]]]:
    return {finding.what: (finding.count, finding.places) for finding in report.findings}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(LINES) + "\n")
    return path


def test_every_fault_is_found_with_its_line(corpus: Path) -> None:
    report = check(corpus, ONTOLOGY)
    assert found(report) == {
        "damaged records, left out here": (
            1,
            [f"{corpus}:3: not JSON: Unterminated string starting at (column 21)"],
        ),
        "documents without content": (1, ["line 6 (id '6')"]),
        "documents with an id met before": (1, ["line 4 (id '2'), as line 2 (id '2')"]),
        "documents with a text met before": (1, ["line 5 (id '5'), as line 1 (id '1')"]),
        "documents with a label given twice": (1, ["line 2 (id '2')"]),
        "documents without labels": (1, ["line 7 (id '7')"]),
        "labels that the ontology does not have": (
            1,
            ["unicorn: 1 document, first in line 5 (id '5')"],
        ),
        "labels that the ontology calls deprecated": (
            1,
            ["hound: 1 document, first in line 4 (id '2'); replaced by dog"],
        ),
        "labels without a position in the hierarchy": (
            1,
            ["loner: 1 document, first in line 6 (id '6')"],
        ),
        "repairs that were needed to read the ontology": (1, ["1 cycle was cut: cat > dog > cat"]),
    }


def test_counts_are_counted_by_hand(corpus: Path) -> None:
    # six sound documents: 3 + 3 + 3 + 3 + 0 + 2 words; 2 + 1 + 1 + 1 + 1 + 0 labels
    assert check(corpus).counts == {
        "documents": 6,
        "documents with labels": 5,
        "labels": 6,
        "different labels": 6,
        "labels a document": 1.0,
        "words": 14,
        "words a document": 2.3,
    }


def test_names_and_notations_are_matched_and_ambiguous_ones_listed(tmp_path: Path) -> None:
    twins = SparseColumn.of(["animal", "cat", "dog", "Twin", "Twin"], "")
    ontology = replace(
        ONTOLOGY, names={"en": twins}, notations={"cat": "1.1"}, deprecated=frozenset()
    )
    path = tmp_path / "train.csv"
    path.write_text("text,labels\nthe cat sat,1.1|Twin\nthe dog ran,DOG\n")
    report = found(check(path, ontology))
    assert report["labels that are a name or notation, matched to a concept"] == (
        2,
        ["1.1: 1 document, first in line 2 (id '1'); cat",
         "DOG: 1 document, first in line 3 (id '2'); dog"],
    )  # fmt: skip
    assert report["labels that are a name or notation of several concepts"] == (
        1,
        ["Twin: 1 document, first in line 2 (id '1'); hound, loner"],
    )
    assert "labels that the ontology does not have" not in report


def test_columns_that_may_have_labels_are_named(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("text,subjects\nthe cat sat,cat\n")
    ((count, places),) = found(check(path)).values()
    assert (count, places) == (1, ["give --label-field if they are in one of subjects"])
    assert check(path, mapping=FieldMapping(label_field="subjects")).frequency == {"cat": 1}


def test_leakage_between_two_corpora_is_found_by_id_and_by_text(
    corpus: Path, tmp_path: Path
) -> None:
    other = tmp_path / "test.jsonl"
    other.write_text(
        '{"id": "7", "text": "another text"}\n'
        '{"id": "8", "text": "the dog ran"}\n'
        '{"id": "9", "text": "all new"}\n'
    )
    faults = found(check(corpus, against=other))
    assert faults["documents of test.jsonl whose id is in this corpus too"] == (
        1,
        ["line 1 (id '7'), here line 7 (id '7')"],
    )
    assert faults["documents of test.jsonl whose text is in this corpus too"] == (
        1,
        ["line 2 (id '8'), here line 2 (id '2')"],
    )


def test_numbers_given_by_the_reader_are_not_taken_for_leakage(tmp_path: Path) -> None:
    for name, text in (("a.txt", "__label__x one\n"), ("b.txt", "__label__x two\n")):
        (tmp_path / name).write_text(text)
    assert check(tmp_path / "a.txt", against=tmp_path / "b.txt").findings == []


def test_labels_are_counted_in_bins_that_double(tmp_path: Path) -> None:
    # a: 1 document, b: 2, c: 3, d: 4
    labels = ["abcd", "bcd", "cd", "d"]
    lines = ["".join(f"__label__{label} " for label in row) + f"text {row}" for row in labels]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    report = check(tmp_path / "train.txt")
    assert report.histogram == [(1, 1, 1), (2, 3, 2), (4, 7, 1)]
    assert report.to_dict()["label_frequency"][1] == {"from": 2, "to": 3, "labels": 2}


def test_the_report_reads_well(corpus: Path) -> None:
    lines = check(corpus, ONTOLOGY).text().split("\n")
    assert "           6  documents" in lines
    assert "           1  document with a text met before" in lines
    assert "              line 5 (id '5'), as line 1 (id '1')" in lines


def test_only_the_first_places_are_named(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("__label__a same\n" * 21)
    (finding,) = check(path).findings
    assert (finding.count, len(finding.places)) == (20, 5)
    assert "    and 15 more" in check(path).text()


def test_a_clean_corpus_has_no_findings(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("__label__x one\n__label__y two\n")
    assert check(tmp_path / "a.txt").text().endswith("no problems were found")


def test_a_corpus_without_documents_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,labels\n")
    with pytest.raises(DataError, match=r"a\.csv: has no documents") as met:
        check(tmp_path / "a.csv")
    assert "header" in met.value.hint


def test_damaged_records_are_listed_where_no_document_is_sound(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,labels\n1,too,many,cells\n")
    (finding,) = check(tmp_path / "a.csv").findings
    assert (finding.what, finding.count) == ("damaged records, left out here", 1)


def test_a_corpus_without_any_label_is_reported_as_no_use_for_training(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,labels\n1,one,\n2,two,\n")
    report = check(tmp_path / "a.csv")
    (finding,) = report.findings
    assert (finding.count, finding.places) == (2, [])
    assert report.text().endswith(
        "2  documents, none with labels: enough to index, but training and evaluation need labels"
    )


def test_the_plot_is_a_picture(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    check(corpus).plot(tmp_path / "labels.png")
    assert (tmp_path / "labels.png").read_bytes().startswith(b"\x89PNG")


def test_one_is_written_in_the_singular(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(f"{LINES[1]}\n")
    text = check(path).text()
    for line in ("1  document", "1  document with labels", "1  document with a label given twice"):
        assert f" {line}\n" in text
    assert "3  words" in text
