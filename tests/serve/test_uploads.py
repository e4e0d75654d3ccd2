"""Uploaded files: their names, and how many are read."""

from __future__ import annotations

import asyncio
import gzip
import io
import tempfile

import pytest
from fastapi import UploadFile

from ontodex.corpora import extract
from ontodex.corpora.extract import EXTRACT_FOLDER
from ontodex.corpora.extract_process import DOC_SIZE, STRING_SIZE
from ontodex.io.temporary import temporary_folder, temporary_name
from ontodex.serve import uploads
from ontodex.serve.service import PARALLEL_EXTRACTIONS
from ontodex.serve.uploads import (
    MAX_FILES,
    UPLOAD_FOLDER,
    clean_file_name,
    read_uploads,
    remove_abandoned_uploads,
)


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/a.txt", "a.txt"),
        ("C:\\files\\a.txt", "a.txt"),
        ("a\nb\x00.txt", "ab.txt"),
        ("x" * 300 + ".txt", "x" * 196 + ".txt"),
        ("", "unnamed"),
        ("folder/", "unnamed"),
    ],
)
def test_a_file_name_has_no_path_and_no_control_characters(name, clean):
    assert clean_file_name(name) == clean


def test_files_beyond_the_limit_are_rejected_with_the_reason():
    files = [UploadFile(io.BytesIO(b"MZ"), filename="a.exe") for _ in range(MAX_FILES + 2)]
    found = asyncio.run(read_uploads(files, asyncio.Semaphore(1)))
    assert found.docs == []
    reasons = [one["reason"] for one in found.rejected]
    assert len(reasons) == MAX_FILES + 2
    assert all("'.exe'" in reason for reason in reasons[:MAX_FILES])
    assert all(str(MAX_FILES) in reason for reason in reasons[MAX_FILES:])


def read_texts(*sizes: int):
    """Read uploaded texts of these lengths."""
    files = [
        UploadFile(io.BytesIO(gzip.compress(b"a" * size)), filename=f"{size}.txt.gz")
        for size in sizes
    ]
    return asyncio.run(read_uploads(files, asyncio.Semaphore(1)))


def test_the_text_of_all_files_of_an_upload_is_limited(monkeypatch):
    room = 30_000 + 3 * (DOC_SIZE + 2 * STRING_SIZE + len("{}"))
    monkeypatch.setattr(uploads, "MAX_UPLOADED_TEXT", room)
    assert [doc.id for doc in read_texts(10_000, 20_000).docs] == ["10000.txt.gz", "20000.txt.gz"]
    at_the_limit = read_texts(10_000, 10_000, 10_000)
    assert (len(at_the_limit.docs), at_the_limit.rejected) == (3, [])
    found = read_texts(10_000, 10_001, 10_000, 1_000)
    assert [doc.id for doc in found.docs] == ["10000.txt.gz", "10001.txt.gz", "1000.txt.gz"]
    (rejected,) = found.rejected
    assert rejected["file"] == "10000.txt.gz"
    left = 10_000 + DOC_SIZE + 2 * STRING_SIZE + 1
    assert f"larger than the {left:,} characters that are left for it" in rejected["reason"]


def test_documents_without_much_text_count_too(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_UPLOADED_TEXT", 100 * DOC_SIZE)
    lines = b'{"text": "a"}\n' * 100
    file = UploadFile(io.BytesIO(lines), filename="many.jsonl")
    found = asyncio.run(read_uploads([file], asyncio.Semaphore(1)))
    assert (found.docs, len(found.rejected)) == ([], 1)


def test_uploads_of_a_killed_service_are_removed_and_those_of_another_one_stay(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in (UPLOAD_FOLDER, EXTRACT_FOLDER):
        temporary_name(tmp_path / name).mkdir()  # without a lock
    with temporary_folder(tmp_path / UPLOAD_FOLDER) as used:
        remove_abandoned_uploads()
        assert list(tmp_path.iterdir()) == [used]


def test_files_of_all_requests_are_read_two_at_a_time(tmp_path, monkeypatch):
    """Each process writes that it started, and ends when the test lets it."""
    reader = tmp_path / "reader"
    reader.write_text(
        f"#!/bin/sh\ncd {tmp_path}\necho start >> log\n"
        "until [ -e go ]; do sleep 0.02; done\necho end >> log\n"
        """echo '{"reason": "was read", "columns": []}' >&2\nexit 2\n"""
    )
    reader.chmod(0o755)
    monkeypatch.setattr(extract.sys, "executable", str(reader))
    log = tmp_path / "log"

    async def send_three_requests() -> list[str]:
        slots = asyncio.Semaphore(PARALLEL_EXTRACTIONS)  # as the service has one
        requests = [
            asyncio.create_task(
                read_uploads([UploadFile(io.BytesIO(b"x"), filename=f"{number}.txt")], slots)
            )
            for number in range(3)
        ]
        while not log.exists() or log.read_text().count("start") < PARALLEL_EXTRACTIONS:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # time for a third one to start
        (tmp_path / "go").touch()
        found = await asyncio.gather(*requests)
        return [one["reason"] for uploads in found for one in uploads.rejected]

    assert asyncio.run(send_three_requests()) == ["was read"] * 3
    events = log.read_text().split()
    n_running = [events[:i].count("start") - events[:i].count("end") for i in range(7)]
    assert max(n_running) == PARALLEL_EXTRACTIONS == 2


def test_the_service_lets_two_files_be_read_at_a_time(client):
    slots = client.app._service.extraction_slots
    assert slots._value == PARALLEL_EXTRACTIONS
