"""Corpora and vocabularies in other encodings than UTF-8 are read, and the log says so."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from ontodex.corpora.open import read_docs
from ontodex.errors import DataError
from ontodex.io.encodings import FALLBACK, detect_encoding
from ontodex.io.files import open_utf8, read_lines
from ontodex.ontology.open import read_ontology

TEXT = "id,text,labels\n1,Forelle im Bächlein für 5 €,Gewässer\n2,Öl,Öle\n"


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (TEXT.encode("utf-8-sig"), "utf-8"),
        (TEXT.encode("cp1252"), FALLBACK),
        (TEXT.encode("utf-16"), "utf-16-le"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16-be"),
        (TEXT.encode("utf-32"), "utf-32-le"),
        # Without a mark, as Windows programs write "Unicode".
        (TEXT.encode("utf-16-le"), "utf-16-le"),
        (TEXT.encode("utf-16-be"), "utf-16-be"),
        ("Форель, 5 рек\n".encode("utf-16-le"), "utf-16-le"),
        (b"a\0", "utf-8"),  # too short to tell
        (bytes(100), "utf-8"),
        (b"\1\0\2\0\3\0\4\0\5\0", "utf-8"),  # 16-bit numbers
        (b"\x93NUMPY\1\0v\0{'descr'", "utf-8"),
        (b"", "utf-8"),
        # Damaged UTF-8 and other bytes stay UTF-8, so that the reader reports the line.
        (TEXT.encode() + b"na\xefve\n", "utf-8"),
        (b"one\n\xff\nthree\n", "utf-8"),
        (b"caf\xe9 \x81\n", "utf-8"),
        (b"caf\xe9 \0\n", "utf-8"),
    ],
)
def test_the_encoding_of_a_file_is_detected(raw: bytes, encoding: str) -> None:
    assert detect_encoding(io.BytesIO(raw)) == encoding


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_table_is_read_in_every_encoding(encoding, pack, tmp_path: Path, caplog) -> None:
    path = tmp_path / "docs.csv"
    path.write_bytes(pack(TEXT.encode(encoding)))
    with caplog.at_level("INFO"):
        docs = list(read_docs(path))
    assert [(doc.text, doc.labels) for doc in docs] == [
        ("Forelle im Bächlein für 5 €", ("Gewässer",)),
        ("Öl", ("Öle",)),
    ]
    assert ("not UTF-8, so read as windows-1252" in caplog.text) == (encoding == "cp1252")
    assert ("read as utf-16-le" in caplog.text) == (encoding in ("utf-16", "utf-16-le"))
    list(read_docs(path))
    assert caplog.text.count("read as") <= 1  # once, though the file was read twice


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs.jsonl", '{"id": "1", "text": "Bächlein", "labels": ["Gewässer"]}\n'),
        ("docs.txt", "__label__Gewässer Bächlein\n"),
        ("docs.tsv", "Bächlein\t<http://e/Gewässer>\n"),
    ],
)
def test_lines_are_read_in_latin_1(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    (doc,) = read_docs(tmp_path / name)
    assert doc.text == "Bächlein"
    assert doc.labels[0].endswith("Gewässer")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("mark", [";", "\t", ","])
@pytest.mark.parametrize("first", ["", "sep={mark}\r\n"])
def test_tables_of_excel_are_read(first: str, mark: str, encoding: str, tmp_path: Path) -> None:
    table = first.format(mark=mark) + TEXT.replace(",", mark).replace("\n", "\r\n")
    (tmp_path / "docs.csv").write_bytes(table.encode(encoding))
    assert [(doc.text, doc.labels) for doc in read_docs(tmp_path / "docs.csv")] == [
        ("Forelle im Bächlein für 5 €", ("Gewässer",)),
        ("Öl", ("Öle",)),
    ]
    names = first.format(mark=mark) + f"id{mark}name_de\r\nc1{mark}Gewässer\r\n"
    (tmp_path / "names.csv").write_bytes(names.encode(encoding))
    assert read_ontology(tmp_path / "names.csv").names_of("c1") == {"de": "Gewässer"}


def test_lines_are_counted_from_the_separator_line(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_text("sep=;\nid;text;labels\n1;trout;fish\n2;pike\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"docs\.csv:4: 2 cells, but the header names 3 columns"):
        list(read_docs(path))
    path.write_text("sep=;\nid;name_de;notation\n1;Forelle;2\n2;Hecht\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"docs\.csv:4: 2 columns, but the header has 3"):
        read_ontology(path)


def test_a_folder_of_texts_may_mix_encodings(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Bächlein".encode("latin-1"))
    (tmp_path / "a.key").write_bytes("Gewässer\n".encode("utf-16"))
    (tmp_path / "b.txt").write_text("Öl", encoding="utf-8")
    assert [(doc.text, doc.labels) for doc in read_docs(tmp_path)] == [
        ("Bächlein", ("Gewässer",)),
        ("Öl", ()),
    ]


def test_long_files_are_converted_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    lines = [f"Zeile {n} mit Bächlein" for n in range(60_000)]
    path.write_text("\n".join(lines), encoding="utf-16")
    assert [line for _, line in read_lines(path)] == lines


def test_bytes_that_are_not_valid_after_a_mark_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes(b"\xff\xfea")
    with pytest.raises(DataError, match="read as utf-16-le, but some bytes are not valid"):
        open_utf8(path).read()
