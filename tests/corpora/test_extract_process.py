from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from ontodex.corpora import extract_process
from ontodex.corpora.extract_process import ExtractedDoc, clean_doc, file_ending, read_documents
from ontodex.errors import DataError

PDF = Path(__file__).parent / "files" / "trout.pdf"
HTML = """<html><head><title>Trout</title><style>p{}</style></head><body><h1>Streams</h1>
<script>alert('no text')</script><p>Trout <b>swim</b>.<!-- no --> Well.</p>café</body></html>"""


def text_of(path: Path, name: str) -> str:
    (doc,) = read_documents(path, name)
    return doc.fields["text"]


def test_the_pages_of_a_pdf_are_read():
    assert text_of(PDF, "a.pdf").strip() == "Trout in a PDF"


def test_a_pdf_with_too_much_text_is_refused(monkeypatch):
    monkeypatch.setattr(extract_process, "MAX_CHARACTERS", 5)
    with pytest.raises(DataError, match="has more than 5 characters"):
        text_of(PDF, "a.pdf")


def test_a_damaged_pdf_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"%PDF-1.4 nonsense")
    with pytest.raises(DataError, match="not a readable PDF"):
        text_of(tmp_path / "a", "a.pdf")


def test_html_is_read_a_line_per_block_without_scripts_styles_and_comments(tmp_path):
    (tmp_path / "a").write_text(HTML, encoding="utf-8")
    assert text_of(tmp_path / "a", "a.HTML") == "Trout\nStreams\nTrout swim. Well.\ncafé"


def test_packed_html_is_unpacked(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(HTML.encode()))
    assert text_of(tmp_path / "a", "a.html.gz") == "Trout\nStreams\nTrout swim. Well.\ncafé"


def test_an_archive_with_the_name_of_a_page_is_refused(tmp_path):
    """Its bytes were read as text."""
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr("../../a.html", HTML)
    with pytest.raises(DataError, match="is a ZIP archive, not HTML"):
        text_of(tmp_path / "a", "a.html")


def test_paragraphs_and_table_cells_of_a_docx_are_read(tmp_path):
    import docx

    document = docx.Document()
    document.add_paragraph("first")
    document.add_table(1, 1).cell(0, 0).text = "in a table"
    document.save(str(tmp_path / "a"))
    assert text_of(tmp_path / "a", "a.docx") == "first\nin a table"


def test_a_docx_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(extract_process, "MAX_OUTPUT", 1000)
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 1001)
    with pytest.raises(DataError, match="unpacks to 1,001 bytes"):
        text_of(tmp_path / "a", "a.docx")


def test_a_corpus_gives_its_documents_and_features_are_refused(tmp_path):
    (tmp_path / "a").write_text("id,title\n7,cars brake\n8,oak\n")
    docs = list(read_documents(tmp_path / "a", "a.csv"))
    assert [(doc.id, doc.fields) for doc in docs] == [
        ("7", {"title": "cars brake"}),
        ("8", {"title": "oak"}),
    ]
    (tmp_path / "b").write_text("1 1 1\n0 0:1\n")
    with pytest.raises(DataError, match="has features, not text"):
        list(read_documents(tmp_path / "b", "b.csv"))


def test_a_file_without_text_is_refused(tmp_path):
    (tmp_path / "a").write_text(" \n")
    with pytest.raises(DataError, match="has no text"):
        text_of(tmp_path / "a", "a.txt")


@pytest.mark.parametrize(
    ("name", "ending"), [("a.PDF", ".pdf"), ("b.jsonl.gz", ".jsonl"), ("c.d.md", ".md")]
)
def test_the_ending_tells_the_kind_of_a_file(name, ending):
    assert file_ending(name) == ending


@pytest.mark.parametrize("name", ["a.exe", "pdf", "b.pdf.zip"])
def test_other_endings_are_refused(name):
    with pytest.raises(DataError, match="cannot be read"):
        file_ending(name)


def test_nul_and_lone_surrogates_become_spaces():
    assert clean_doc(ExtractedDoc("1", {"text": "a\0b\ud800c"})).fields == {"text": "a b c"}
