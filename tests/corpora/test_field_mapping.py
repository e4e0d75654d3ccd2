"""Tables with columns of any name: every tabular format reads them alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ontodex.corpora.detect import restrict_mapping
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.open import open_corpus, open_mapped, read_docs
from ontodex.errors import DataError, UnmappedTableError
from ontodex.types import Doc

COLUMNS = ("doc", "headline", "content", "topics", "year")
ROWS = [
    ("a1", "Trout", "Trout return, again", "fish / rivers", "2020"),
    ("a2", "Oaks", "Oaks grow", "trees", "2021"),
]
MAPPING = FieldMapping(("content", "headline"), "topics", "doc", " / ")


def write_text_table(path: Path, mark: str) -> None:
    rows = [COLUMNS, *ROWS]
    lines = [mark.join(f'"{cell}"' if mark in cell else cell for cell in row) for row in rows]
    path.write_text("\n".join(lines) + "\n")


def write_jsonl(path: Path) -> None:
    objects = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))


def write_parquet(path: Path) -> None:
    columns = dict(zip(COLUMNS, zip(*ROWS, strict=True), strict=True))
    pq.write_table(pa.table({name: list(cells) for name, cells in columns.items()}), path)


WRITERS: dict[str, Callable[[Path], None]] = {
    "csv": lambda path: write_text_table(path, ","),
    "csv with semicolons": lambda path: write_text_table(path, ";"),
    "tsv": lambda path: write_text_table(path, "\t"),
    "jsonl": write_jsonl,
    "parquet": write_parquet,
}


@pytest.fixture(params=WRITERS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "table"
    WRITERS[request.param](path)
    return path


def test_a_mapped_table_is_read_in_the_order_of_the_mapping(table: Path) -> None:
    first, second = read_docs(table, mapping=MAPPING)
    assert first == Doc(
        "a1",
        {"content": "Trout return, again", "headline": "Trout"},
        labels=("fish", "rivers"),
        metadata={"year": "2020"},
    )
    assert list(first.fields) == ["content", "headline"]
    assert (second.id, second.labels) == ("a2", ("trees",))


def test_the_python_call_takes_the_same_names(table: Path) -> None:
    corpus = open_corpus(
        table,
        text_fields=["content", "headline"],
        label_field="topics",
        id_field="doc",
        label_separator=" / ",
    )
    assert list(corpus) == list(open_mapped(table, MAPPING))
    assert list(open_corpus(table, text_fields="headline").ids) == ["1", "2"]


def test_an_unmapped_table_is_answered_with_its_columns_and_the_options(table: Path) -> None:
    with pytest.raises(
        UnmappedTableError, match="the columns are doc, headline, content, topics, year"
    ) as met:
        list(read_docs(table))
    assert str(met.value).count(str(table)) == 1
    assert all(name in met.value.hint for name in ("--text-field", "--label-field", "--id-field"))


def test_a_column_that_is_not_there_is_answered_with_those_that_are(table: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'topic'; the columns are doc, .*'topics'"):
        list(read_docs(table, mapping=FieldMapping(("content",), "topic")))


def test_a_recorded_mapping_is_used_for_like_tables_only(table: Path, tmp_path: Path) -> None:
    assert restrict_mapping(table, MAPPING) == MAPPING
    unlabelled = tmp_path / "unlabelled.csv"
    unlabelled.write_text("headline,content\nTrout,Trout return\n")
    assert restrict_mapping(unlabelled, MAPPING) == FieldMapping(
        MAPPING.text_fields, label_separator=" / "
    )
    other = tmp_path / "other.csv"
    other.write_text("id,text\n1,Trout return\n")
    assert restrict_mapping(other, MAPPING) == NO_MAPPING


def test_lists_of_labels_and_numbers_as_ids_are_read_from_json(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"n": 7, "abstract": "Trout", "topics": ["fish", "rivers"]}\n')
    (doc,) = read_docs(path, mapping=FieldMapping(label_field="topics", id_field="n"))
    assert doc == Doc("7", {"abstract": "Trout"}, labels=("fish", "rivers"))


def test_json_lines_without_ids_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "a", "labels": ["x"]}\n{"text": "b", "labels": []}\n')
    assert [doc.id for doc in read_docs(path)] == ["1", "2"]


def test_the_keywords_of_authors_may_be_the_labels(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_text("text,keywords\ntrout,fish;rivers\n")
    (doc,) = read_docs(path, mapping=FieldMapping(label_field="keywords"))
    assert (doc.labels, doc.keywords) == (("fish", "rivers"), ())
