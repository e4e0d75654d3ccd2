"""The table of the page's texts: complete in four languages, every text used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ontodex

PAGE = Path(ontodex.__file__).parent / "serve" / "page"
LINES = (PAGE / "texts.tsv").read_text(encoding="utf-8").splitlines()
LANGUAGES = ["en", "de", "fi", "fr"]
TEXTS = {key: cells for key, *cells in (line.split("\t") for line in LINES[1:])}
CODE = "\n".join(path.read_text() for path in sorted(PAGE.glob("*.js")))
HTML = (PAGE / "index.html").read_text()
# Keys that the code puts together: t(`key-${key}`) and the like.
PREFIXES = ("key-", "is-", "state-", "order-", "format-", "export-", "no-")


def test_the_table_has_four_languages_and_no_key_twice():
    assert LINES[0].split("\t") == ["key", *LANGUAGES]
    assert len(TEXTS) == len(LINES) - 1


@pytest.mark.parametrize("key", TEXTS)
def test_every_language_has_the_text_with_the_same_values(key):
    cells = TEXTS[key]
    assert len(cells) == len(LANGUAGES)
    assert all(cell.strip() for cell in cells)
    # A singular may write its number as a word ("One document added.").
    values = {frozenset(re.findall(r"\{(\w+)\}", cell.split("|")[-1])) for cell in cells}
    assert len(values) == 1
    assert all(cell.count("|") <= 1 for cell in cells)


def test_every_key_in_the_code_has_a_text_and_every_text_is_used():
    called = set(re.findall(r'\b(?:t|fill)\(\s*"([^"]+)"', CODE))
    chosen = set(re.findall(r'"([a-z?/\[\]-]+)"', CODE)) & TEXTS.keys()
    marked = set(re.findall(r'data-(?:text|label|placeholder)="([^"]+)"', HTML))
    assert called - TEXTS.keys() == set()
    assert marked - TEXTS.keys() == set()
    unused = TEXTS.keys() - called - chosen - marked
    assert [key for key in unused if not key.startswith(PREFIXES)] == []


def test_the_page_has_no_text_outside_the_table():
    """Elements of the page are empty until the table fills them, apart from names and signs."""
    body = HTML[HTML.index("<body>") :]
    shown = re.findall(r">([^<>]*[A-Za-z]{2}[^<>]*)<", body)
    assert set(map(str.strip, shown)) <= {"ontodex"}
