"""The XML reader yields the elements of good files, and names the line of an error in others."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from ontodex.errors import DataError
from ontodex.io import xml

PUBMED = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2019//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_190101.dtd">'
)


def put(folder: Path, content: str | bytes) -> Path:
    path = folder / "file.xml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(path: Path, *tags: str) -> list[tuple[str, str]]:
    return [(e.tag, "".join(e.itertext())) for e in xml.read_elements(path, tags)]


def test_elements_come_in_file_order_with_all_they_contain(tmp_path: Path) -> None:
    path = put(tmp_path, "<r><a>1<i>2</i>3</a><skip>no</skip><b/><s><a>4</a></s></r>")
    assert texts(path, "a", "b") == [("a", "123"), ("b", ""), ("a", "4")]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_packed_files_are_unpacked(pack: Any, tmp_path: Path) -> None:
    assert texts(put(tmp_path, pack(b"<r><a>x</a></r>")), "a") == [("a", "x")]


@pytest.mark.parametrize(
    "doctype",
    [
        PUBMED,
        "<!DOCTYPE r>",
        '<!DOCTYPE r SYSTEM "r.dtd">',
        "<!DOCTYPE r SYSTEM 'r[1].dtd' >",
        "<?style a?><!-- a comment -->\n<!DOCTYPE r PUBLIC 'x' \"y\"><!-- <!DOCTYPE r [ -->",
    ],
)
def test_a_doctype_that_declares_nothing_is_ignored(doctype: str, tmp_path: Path) -> None:
    assert texts(put(tmp_path, doctype + "<r><a>x</a></r>"), "a") == [("a", "x")]


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE r []>",
        '<!DOCTYPE r [<!ENTITY a "b">]>',
        '<!DOCTYPE r SYSTEM "r.dtd" [<!ENTITY a "b">]>',
        "<!DOCTYPE r><!DOCTYPE r>",
        '<!DOCTYPE r SYSTEM "unclosed>',
        "<!DOCTYPE>",
    ],
)
def test_any_other_doctype_is_refused_with_its_line(doctype: str, tmp_path: Path) -> None:
    path = put(tmp_path, f"<?xml version='1.0'?>\n{doctype}\n<r><a>x</a></r>")
    with pytest.raises(DataError, match=r"file\.xml:2: its DOCTYPE"):
        texts(path, "a")


def test_a_doctype_after_the_root_has_begun_is_not_xml(tmp_path: Path) -> None:
    for content in ("<r><!DOCTYPE r [<!ENTITY a 'b'>]><a/></r>", "<r/><!DOCTYPE r><r/>"):
        with pytest.raises(DataError, match="not well-formed"):
            texts(put(tmp_path, content), "a")


@pytest.mark.parametrize(
    ("declared", "codec"),
    [
        ("utf-8", "utf-8"),
        ("UTF-8", "utf-8-sig"),
        ("latin-1", "utf-8-sig"),  # the mark knows better than the declaration
        ("ISO-8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
        ("UTF-16", "utf-16"),
        ("utf-8", "utf-16"),
    ],
)
def test_encodings_are_read_as_marked_or_declared(
    declared: str, codec: str, tmp_path: Path
) -> None:
    content = f'<?xml version="1.0" encoding="{declared}"?>\n<r><a>né</a></r>'
    assert texts(put(tmp_path, content.encode(codec)), "a") == [("a", "né")]


@pytest.mark.parametrize("declared", ["UTF-7", "IBM037", "utf-32", "no-such-code", "rot13"])
def test_encodings_that_could_hide_markup_are_refused(declared: str, tmp_path: Path) -> None:
    path = put(tmp_path, f'<?xml version="1.0" encoding="{declared}"?><r/>')
    with pytest.raises(DataError, match=f"declares the encoding '{declared}'"):
        texts(path, "r")


def test_bytes_that_break_a_declared_encoding_are_refused_with_their_line(tmp_path: Path) -> None:
    ascii_file = b'<?xml version="1.0" encoding="US-ASCII"?>\n<r><a>\xe9</a></r>'
    with pytest.raises(DataError, match="do not match its encoding"):
        texts(put(tmp_path, ascii_file), "a")
    with pytest.raises(DataError, match=r"file\.xml:3: "):
        texts(put(tmp_path, b"<r>\n<a/>\n\xe9</r>"), "a")
    with pytest.raises(DataError, match="do not match its encoding"):  # half a character at the end
        texts(put(tmp_path, "<r/>".encode("utf-16")[:-1]), "r")


def test_line_numbers_count_the_prolog(tmp_path: Path) -> None:
    path = put(tmp_path, f"<?xml version='1.0'?>\n{PUBMED}\n\n<r>\n<a></b></r>")
    with pytest.raises(DataError, match=r"file\.xml:5: not well-formed XML") as caught:
        texts(path, "a")
    assert caught.value.line == 5
    path = put(tmp_path, f"\n{PUBMED}\n<r>\n<a/></r>")
    assert [e.sourceline for e in xml.read_elements(path, ["a"])] == [4]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "file ends"),
        ("   ", "file ends"),
        ("{}", "found '{}'"),
        ("<?xml version='1.0'?>", "file ends"),
        ("<!-- open", "found '<!-- open'"),
        ("<r>&nbsp;</r>", "Entity 'nbsp' not defined"),
        ("<r>&amp;&lt;&#233;", "Premature end"),
    ],
)
def test_what_is_not_xml_is_said(content: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        texts(put(tmp_path, content), "r")
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'file.xml'}:")


def test_a_missing_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        texts(tmp_path / "none.xml", "a")


def test_the_tree_does_not_grow_with_the_file(tmp_path: Path) -> None:
    record = "<set><rec><id>1</id></rec><more><x/><y/></more></set>\n"
    path = put(tmp_path, f"<r>{record * 20_000}</r>")
    for record_element in xml.read_elements(path, ["rec"]):
        root = record_element.getroottree().getroot()
        # Behind this record at most the last one is left, emptied; ahead only the same block.
        assert root.index(record_element.getparent()) <= 1
        assert len(root) <= xml.PROLOG // len(record) + 1


def test_elements_before_an_error_are_given(tmp_path: Path) -> None:
    path = put(tmp_path, "<r>" + "<a>x</a>" * 20_000 + "<b></r>")
    seen = 0
    with pytest.raises(DataError, match="not well-formed"):
        for _ in xml.read_elements(path, ["a"]):
            seen += 1
    assert seen > 10_000


@settings(deadline=None, max_examples=50)
@given(
    words=st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=5),
    codec=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_text_is_what_lxml_reads_from_the_plain_file(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], codec: str
) -> None:
    legal = ["".join(c for c in word if c in "\t\n" or " " <= c < "\ufffe") for word in words]
    root = etree.Element("r")
    for word in legal:
        etree.SubElement(root, "a").text = word
    plain = etree.tostring(root, encoding="unicode")
    path = put(tmp_path_factory.mktemp("xml"), plain.encode(codec))
    assert [text for _, text in texts(path, "a")] == legal


def test_blocks_are_the_file_without_its_prolog(tmp_path: Path) -> None:
    path = put(tmp_path, f"<?xml version='1.0'?>\n{PUBMED}\n<r>{'é' * 100_000}</r>")
    assert b"".join(xml.read_blocks(path)).decode() == f"\n\n<r>{'é' * 100_000}</r>"
