"""Patterns of words."""

from __future__ import annotations

import pytest

from ontodex.features.token_patterns import choose_pattern


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't stop_words 42", ["don", "t", "stop", "words", "42"]),
        ("Größe, naïve", ["Größe", "naïve"]),
        ("cafe\u0301 co\u00adop", ["cafe\u0301", "co\u00adop"]),  # an accent; a soft hyphen
        ("\u6771\u4eac 2026", ["\u6771", "\u4eac", "2026"]),  # Han: each is a word
    ],
)
def test_words_are_runs_of_letters_digits_and_their_marks(text, words):
    assert choose_pattern(text, punctuation=False).findall(text) == words


@pytest.mark.parametrize("text", ["a-b_c.", "e\u0301-b_c."])
def test_with_punctuation_each_mark_is_a_word(text):
    first, *rest = choose_pattern(text, punctuation=True).findall(text)
    assert first == text[: text.index("-")]
    assert rest == ["-", "b", "_", "c", "."]
