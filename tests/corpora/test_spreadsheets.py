"""Tables as spreadsheet programs export them."""

from __future__ import annotations

import logging
import zipfile
from pathlib import Path

import pytest

from ontodex.corpora.convert import convert
from ontodex.corpora.open import open_corpus, read_docs
from ontodex.errors import DataError, UnmappedTableError
from ontodex.ontology.open import read_ontology
from ontodex.types import Doc

ROWS = 'a1;"Trout return; again";fish|rivers\r\na2;Oaks grow;trees\r\n'
DOCS = [
    Doc("a1", {"text": "Trout return; again"}, labels=("fish", "rivers")),
    Doc("a2", {"text": "Oaks grow"}, labels=("trees",)),
]


def put(tmp_path: Path, content: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode(encoding))
    return path


@pytest.mark.parametrize("header", ["id;text;labels", "ID;Text;Labels", "Id ; TEXT; Labels"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_capitals_and_spaces_in_the_usual_names_do_not_count(tmp_path, header, encoding):
    assert list(read_docs(put(tmp_path, f"{header}\r\n{ROWS}", encoding))) == DOCS


def test_columns_of_other_names_are_given_beside_the_usual_ones(tmp_path):
    path = put(tmp_path, f" ID ;Text;Subject headings \r\n{ROWS}")
    assert [doc.id for doc in open_corpus(path, label_field="Subject headings")] == ["a1", "a2"]
    assert list(open_corpus(path, label_field="Subject headings").labels()) == [
        ["fish", "rivers"], ["trees"],
    ]  # fmt: skip
    assert list(open_corpus(path, text_fields="Text").ids) == ["a1", "a2"]
    with pytest.raises(DataError, match="there is no column 'text'; the columns are id, Text"):
        open_corpus(path, text_fields=["Text", "text"])


def test_empty_columns_at_the_right_and_empty_rows_at_the_end_are_no_data(tmp_path):
    wide = "id;text;labels;;\r\n" + ROWS.replace("\r\n", ";;\r\n") + ";;;;\r\n;;;;\r\n"
    assert list(read_docs(put(tmp_path, wide))) == DOCS
    with pytest.raises(DataError, match="5 cells, but the header names 3 columns"):
        list(read_docs(put(tmp_path, wide.replace("trees;;", "trees;;more"))))


def test_labels_on_lines_of_a_cell_are_divided(tmp_path):
    path = put(tmp_path, 'id;text;labels\r\na1;Trout;"fish\nrivers"\r\n')
    assert list(open_corpus(path).labels()) == [["fish", "rivers"]]


def test_converting_a_table_with_columns_of_other_names_names_them(tmp_path):
    path = put(tmp_path, f"number;content;topics\r\na1;{'long text ' * 50};fish\r\n")
    with pytest.raises(UnmappedTableError, match="the columns are number, content, topics"):
        convert(path, tmp_path / "out.jsonl")


@pytest.mark.parametrize(
    ("member", "what"), [("xl/workbook.xml", "a spreadsheet"), ("word/document.xml", "a text doc")]
)
def test_files_of_office_programs_are_named_with_what_to_do(tmp_path, member, what):
    path = tmp_path / "table.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, "<x/>")
    for read in (open_corpus, read_ontology):
        with pytest.raises(DataError, match=f"table.xlsx: is {what}") as error:
            read(path)
        assert ("CSV" in error.value.hint) == (what == "a spreadsheet")


def test_the_hint_for_an_unknown_file_names_what_is_read_and_not_twenty_formats(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(DataError, match="it is a file that begins with 'hello'") as error:
        open_corpus(put(tmp_path, "hello"))
    assert "a table with a line of column names" in error.value.hint
    assert "libmultilabel" not in error.value.hint


def test_columns_of_the_same_name_are_named(tmp_path):
    with pytest.raises(DataError, match="several columns of the name Title") as error:
        open_corpus(put(tmp_path, "Id;Title;Title;Topics\r\n1;a;b;c\r\n"))
    assert "a name of its own" in error.value.hint
    with pytest.raises(DataError, match="not a known corpus format"):
        open_corpus(put(tmp_path, "rain, and rain, and rain\nno more\n"))
