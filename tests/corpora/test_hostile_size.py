"""Corpora made to take long or much memory: both grow with the file, and no faster."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
from pathlib import Path

import pytest

from growth import limit_processor_time
from ontodex.corpora.check import check, count_words
from ontodex.corpora.detect import detect_format
from ontodex.corpora.parsing.file_head import Head
from ontodex.errors import OntodexError

SIZE = 2**22  # with a scan to the end of the file from every tag, hours
HEAD = b'<?xml version="1.0"?>\n<PubmedArticleSet>\n'
CITATION = (
    b'<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">%d</PMID><Article>'
    b"<ArticleTitle>Rain in rivers</ArticleTitle></Article></MedlineCitation></PubmedArticle>\n"
)


def check_bytes(data: bytes, path: Path) -> None:
    """Check a file, damaged or not."""
    path.write_bytes(data)
    with contextlib.suppress(OntodexError):
        check(path)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "hostile",
    [
        HEAD + b"<MedlineCitation " * (SIZE // 17),
        HEAD + b"<DeleteCitation>" + b"<PMID" * (SIZE // 5),
        HEAD + b"<DeleteCitation>" + b"<PMID>" * (SIZE // 6),
        HEAD + b"<MedlineCitation>" * (SIZE // 17),
        b"<MedlineCitation " * (SIZE // 17),
        b"<MedlineCitation <PMID" * (SIZE // 22),
    ],
    ids=["citation", "deletion", "closed deletion", "closed citation", "no root", "both"],
)
def test_medline_tags_repeated_without_an_end_are_scanned_once(
    hostile: bytes, packed: bool, tmp_path: Path
) -> None:
    with limit_processor_time(60):
        check_bytes(gzip.compress(hostile) if packed else hostile, tmp_path / "docs.xml")


def test_deletions_are_still_found_behind_unclosed_tags(tmp_path: Path) -> None:
    path = tmp_path / "docs.xml"
    deletion = b'<DeleteCitation><PMID Version="1">1</PMID></DeleteCitation>'
    path.write_bytes(HEAD + CITATION % 1 + CITATION % 2 + deletion + b"</PubmedArticleSet>")
    assert check(path).counts["documents"] == 1


def test_the_head_of_a_file_of_one_long_line_is_read_without_copies(tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_bytes(b"x" * 40 * 2**20)
    tracemalloc.start()
    head = Head.of(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(head.start) == 40 * 2**20
    assert peak < 3 * 40 * 2**20


def test_words_are_counted_over_the_borders_of_blocks() -> None:
    for text in ("a b " * 50_000, "word" * 40_000, " " * 70_000 + "x", "ab\n" * 43_691 + "c"):
        assert count_words(text) == len(text.split())


def test_a_message_about_many_columns_is_short(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text(
        '{"text": "a", "id": "1"}\n{' + ", ".join(f'"k{i}": 1' for i in range(50_000)) + "}"
    )
    report = check(path)
    assert detect_format(path) == "jsonl"
    assert max(len(place) for found in report.findings for place in found.places) < 2_000
