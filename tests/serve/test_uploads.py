"""Uploaded files: their names, and how many are read."""

from __future__ import annotations

import asyncio
import io

import pytest
from fastapi import UploadFile

from ontodex.serve.uploads import MAX_FILES, clean_file_name, read_uploads


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
