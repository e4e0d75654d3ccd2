from __future__ import annotations

import pytest

from ontodex.corpora.parsing.json_objects import get_id, get_strings, get_text, parse_object
from ontodex.errors import DataError


def test_a_blank_line_has_no_object():
    assert parse_object("  ") is None
    assert parse_object('{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "a JSON list where an object was expected"),
        ("{", "not JSON"),
        ('{"a": "\\u0000"}', "NUL"),
        ('{"a": "\\ud800"}', "surrogate"),
    ],
)
def test_other_lines_are_refused(text, problem):
    with pytest.raises(DataError, match=problem):
        parse_object(text)


def test_whole_numbers_are_ids_and_other_values_are_not():
    assert get_id({"id": 7}, "id") == "7"
    for value in (None, "", True, 1.5, ["a"]):
        with pytest.raises(DataError, match="id"):
            get_id({"id": value}, "id")


def test_a_list_of_texts_is_joined_by_lines():
    assert get_text({"t": ["a", "b"]}, "t") == "a\nb"
    assert get_text({}, "t") == ""
    with pytest.raises(DataError, match="'t' is number '7', not a text"):
        get_text({"t": 7}, "t")


def test_numbers_in_a_list_become_text_and_empty_items_are_refused():
    assert get_strings({"l": [1, "a"]}, "l") == ("1", "a")
    for value in ("a", [""], [None]):
        with pytest.raises(DataError, match="'l'"):
            get_strings({"l": value}, "l")
