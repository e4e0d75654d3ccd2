from __future__ import annotations

import pytest

from ontodex.corpora.field_mapping import FieldMapping
from ontodex.corpora.parsing.columns import Columns, format_strings, is_header, parse_strings
from ontodex.errors import DataError


@pytest.mark.parametrize(
    ("cell", "strings"),
    [
        (None, ()),
        ("", ()),
        ("a|b", ("a", "b")),
        ("a; b", ("a", "b")),
        ("a;b|c", ("a;b", "c")),
        ('["a|b", "c"]', ("a|b", "c")),
        (["a"], ("a",)),
        (7, ("7",)),
    ],
)
def test_lists_in_a_cell(cell, strings):
    assert parse_strings(cell, "labels") == strings


@pytest.mark.parametrize("strings", [(), ("a",), ("a", "b"), ("a|b",), ("[x",), (" a ",), ("a;b",)])
def test_a_list_is_read_back_from_its_cell(strings):
    assert parse_strings(format_strings(strings), "labels") == strings


def test_other_columns_are_metadata_unless_they_are_named():
    row = {"id": "1", "title": "T", "note": "N", "field:x": "X"}
    assert Columns(list(row)).doc(5, row).metadata == {"note": "N"}
    named = Columns(list(row), FieldMapping(("note",))).doc(5, row)
    assert named.fields == {"note": "N"}
    assert named.metadata == {"title": "T", "field:x": "X"}
    assert Columns(["text"]).doc(5, {"text": "t"}).id == "5"


def test_a_table_without_text_is_refused():
    assert not is_header(["id", "labels"])
    with pytest.raises(DataError, match="the columns are id, labels"):
        Columns(["id", "labels"])
