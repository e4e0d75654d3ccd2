from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ontodex.corpora import extract
from ontodex.corpora.extract import extract_file
from ontodex.corpora.extract_process import MAX_MEMORY
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.errors import DataError, UnmappedTableError

PDF = Path(__file__).parent / "files" / "trout.pdf"


def run(path: Path, name: str):
    return asyncio.run(extract_file(path, name)).docs


def test_a_pdf_becomes_one_document_with_the_name_of_the_file():
    (doc,) = run(PDF, "article.pdf")
    assert (doc.id, doc.text.strip()) == ("article.pdf", "Trout in a PDF")


def test_a_corpus_becomes_its_documents_with_labels(tmp_path):
    path = tmp_path / "upload"
    path.write_text('{"id": "a", "title": "trout", "keywords": ["fish"], "labels": ["L1"]}\n')
    (doc,) = run(path, "docs.jsonl")
    assert (doc.id, doc.fields, doc.keywords, doc.labels) == (
        "a",
        {"title": "trout"},
        ("fish",),
        ("L1",),
    )


def test_columns_may_be_named_and_the_warnings_of_the_reader_come_back(tmp_path):
    path = tmp_path / "upload"
    path.write_text("headline,topics\ntrout,L1|L1\n")
    fields = FieldMapping(("headline",), "topics")
    found = asyncio.run(extract_file(path, "docs.csv", fields))
    assert [(doc.fields, doc.labels) for doc in found.docs] == [({"headline": "trout"}, ("L1",))]
    assert found.warnings == ["docs.csv: a label was given twice and taken once: 1 document"]
    # The columns of the training documents are tried where nobody names any.
    assert asyncio.run(extract_file(path, "docs.csv", recorded=fields)).docs == found.docs


def test_an_unmapped_table_is_an_error_with_its_columns(tmp_path):
    path = tmp_path / "upload"
    path.write_text("headline,topics\ntrout,L1\n")
    with pytest.raises(UnmappedTableError, match=r"^docs\.csv: no column is known") as met:
        run(path, "docs.csv")
    assert met.value.columns == ("headline", "topics")


def test_the_error_names_the_file_as_the_user_knows_it(tmp_path):
    path = tmp_path / "upload"
    path.write_text('{"id": "a", "text": "x"}\n{broken\n')
    with pytest.raises(DataError, match=r"^docs\.jsonl:2: not JSON"):
        run(path, "docs.jsonl")


def test_a_process_that_dies_is_an_error(monkeypatch):
    monkeypatch.setattr(extract.sys, "executable", "/bin/false")
    with pytest.raises(DataError, match="could not be read: damaged, or too large"):
        run(PDF, "article.pdf")


def write_sparse(path: Path, size: int) -> Path:
    """Write a page with one word and an open comment of NUL bytes, which take no disk."""
    with path.open("wb") as file:
        file.write(b"<p>trout</p><!--")
        file.truncate(size)
    return path


def test_a_file_that_needs_more_than_the_memory_of_the_process_is_refused(tmp_path):
    above = write_sparse(tmp_path / "above.html", MAX_MEMORY)  # beside the program itself
    with pytest.raises(DataError, match="needs more than 2,048 MiB to be read"):
        run(above, "above.html")


def test_a_file_that_fits_into_the_memory_of_the_process_is_read(tmp_path):
    (doc,) = run(write_sparse(tmp_path / "below.html", 2**26), "below.html")
    assert doc.text == "trout"


def test_a_full_disk_is_not_called_a_damaged_file(tmp_path, monkeypatch):
    """The process writes its documents to a device that is always full."""
    real = extract.temporary_folder

    @contextlib.contextmanager
    def make_full_folder(path: Path) -> Iterator[Path]:
        with real(tmp_path / path.name) as folder:
            (folder / "documents").symlink_to("/dev/full")
            yield folder

    monkeypatch.setattr(extract, "temporary_folder", make_full_folder)
    with pytest.raises(OSError, match="No space left on device") as met:
        run(PDF, "article.pdf")
    assert met.value.errno == errno.ENOSPC


def test_a_process_that_takes_too_long_is_killed(tmp_path, monkeypatch, descendants):
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 600\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(extract.sys, "executable", str(sleeper))
    monkeypatch.setattr(extract, "SECONDS", 0.1)
    before = set(descendants(os.getpid()))
    with pytest.raises(DataError, match=r"took longer than 0\.1 s"):
        run(PDF, "article.pdf")
    assert set(descendants(os.getpid())) <= before
