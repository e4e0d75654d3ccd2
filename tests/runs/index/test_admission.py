"""Admission of documents: rejected records, blocks."""

from __future__ import annotations

import gzip
from io import BytesIO

import pytest

from index_jobs import DOCS, ids_in, lines, write_input
from ontodex.corpora.open import read_docs
from ontodex.errors import DataError
from ontodex.runs.index import admission
from ontodex.runs.index.job import IndexResult, TableFiles, index_documents


def test_records_that_cannot_be_indexed_are_counted_and_listed_with_their_line(run, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(
        '{"id": "a", "text": "trout"}\n'
        "{broken\n"
        '{"id": "b", "text": "  "}\n'
        '{"id": "a", "text": "oaks"}\n'
        '{"text": "no id"}\n'
        '{"id": "c", "text": "cars"}\n'
    )
    out = tmp_path / "out.csv"
    assert index_documents(run.folder, source, out) == IndexResult(2, 4)
    assert ids_in(out) == ["a", "c"]
    rejects = lines(TableFiles(out).rejects)
    assert [(row["input"], row["line"], row["id"]) for row in rejects] == [
        ("in.jsonl", 2, None), ("in.jsonl", 3, "b"), ("in.jsonl", 4, "a"), ("in.jsonl", 5, None)
    ]  # fmt: skip
    assert [str(row["reason"])[:8] for row in rejects] == [
        "not JSON", "no text", "a docume", "no id; t"
    ]  # fmt: skip


def test_a_truncated_input_is_an_error_and_writes_no_table(run, tmp_path):
    whole = gzip.compress(write_input(tmp_path / "in.jsonl", DOCS).read_bytes())
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) - 12])
    with pytest.raises(DataError, match="cut off"):
        index_documents(run.folder, tmp_path / "cut.jsonl.gz", tmp_path / "out.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "cut.jsonl.gz"}


def test_long_documents_make_small_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(admission, "BLOCK_TEXT", 50)
    source = write_input(tmp_path / "in.jsonl", DOCS)  # of 16 to 19 characters each
    reading = admission.Admission(read_docs(source), BytesIO(), "in.jsonl")
    assert [len(block) for block in reading.read_blocks(1000)] == [3] * 8
