from __future__ import annotations

import pytest

from ontodex.corpora.characters import check_text, check_value, replace_surrogates
from ontodex.errors import DataError


@pytest.mark.parametrize("text", ["", "plain", "caf\u00e9 \U0001f600", "\u2028\ufeff"])
def test_valid_text_passes(text):
    check_text(text)


@pytest.mark.parametrize(
    ("text", "problem"), [("a\0b", "a NUL character"), ("a\ud800b", "half a surrogate pair")]
)
def test_nul_and_halves_of_surrogate_pairs_are_refused(text, problem):
    with pytest.raises(DataError, match=f"^here: {problem}"):
        check_text(text, "here")


@pytest.mark.parametrize("value", [{"a\0": 1}, {"a": ["b", {"c": "\0"}]}, ("x", "\0")])
def test_every_text_of_a_value_is_checked(value):
    with pytest.raises(DataError, match="NUL"):
        check_value(value)


def test_each_half_of_a_pair_is_replaced():
    assert replace_surrogates("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert replace_surrogates("\U0001f600") == "\U0001f600"
