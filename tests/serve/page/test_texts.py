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


# Ways in which the code shows a text, followed by a literal with letters.
SHOWN = re.compile(
    r"""(?:(?:textContent|innerText|title|ariaLabel|placeholder)\s*=(?!=)|announce\(|message:"""
    r"""|setAttribute\("aria-label",|element\("\w+", \{[^}]*\},)\s*["'`](?=[^"'`$]*[A-Za-z]{2})"""
)


def test_the_code_shows_no_text_outside_the_table():
    """The description of the API (docs.js) is in English, as the texts of the service are."""
    assert SHOWN.search('byId("x").textContent = "Nothing"')
    assert SHOWN.search('element("p", { class: "quiet" }, "Nothing")')
    assert SHOWN.search('announce("Saved")')
    names = (
        'element("code", {}, "ontodex evaluate RUN CORPUS"',
        'element("a", { href: "/metrics" }, "/metrics")',
        'title = "ontodex"',
    )
    found = {
        (path.name, path.read_text()[hit.start() : hit.start() + 80].split("\n")[0])
        for path in PAGE.glob("*.js")
        if path.name != "docs.js"
        for hit in SHOWN.finditer(path.read_text())
    }
    assert {each for each in found if not each[1].startswith(names)} == set()
