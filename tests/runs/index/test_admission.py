"""Admission of documents: rejected records, blocks."""

from __future__ import annotations

import gzip

import pytest

from index_jobs import DOCS, ids_in, lines, write_input
from ontodex.errors import DataError
from ontodex.runs.index import admission
from ontodex.runs.index.job import index_documents
from ontodex.runs.index.resume import IndexResult, JobFiles


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
    rejects = lines(JobFiles(out).rejects)
    assert [(row["line"], row["id"]) for row in rejects] == [
        (2, None), (3, "b"), (4, "a"), (5, None)
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


def test_long_documents_make_small_blocks(run, tmp_path, monkeypatch):
    monkeypatch.setattr(admission, "BLOCK_TEXT", 50)
    source = write_input(tmp_path / "in.jsonl", DOCS)  # of 16 to 19 characters each
    _, blocks, _ = admission.admit_documents(source, tmp_path / "parts", 1000)
    assert [block.end - block.start for block in blocks] == [3] * 8
