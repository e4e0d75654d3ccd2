"""Explanations as marked text."""

from __future__ import annotations

import pytest

from ontodex.render.explanation import format_explanation, print_explanation
from ontodex.types.answers import Explanation, Span


def test_marks_show_the_words_for_a_concept_and_against_it():
    weights = {"Brown": 0.4, "trout": 2.0, "out": 2.0, "the": 0.01, "weir": -1.0}
    text = "Brown troutout of the weir."
    at = {word: text.rindex(word) for word in weights}  # "out" right behind "trout"
    spans = [Span(at[word], at[word] + len(word), weight) for word, weight in weights.items()]
    found = format_explanation(Explanation(text, "fish", "Fish", 0.25, spans))
    assert found.splitlines() == [
        "Fish (fish), probability 0.250",
        "*Brown* **troutout** of the ~~weir~~.",
    ]


@pytest.mark.parametrize("colours", ["no", "yes"])
def test_names_and_texts_cannot_command_the_terminal(colours, monkeypatch, capsys):
    monkeypatch.setenv(*(("NO_COLOR", "1") if colours == "no" else ("FORCE_COLOR", "1")))
    text = "trout \x1b]0;owned\x07swims"
    print_explanation(Explanation(text, "fi\x9bsh", "Fi\u202esh", 0.25, [Span(0, 5, 1.0)]))
    shown = capsys.readouterr().out
    assert not any(mark in shown for mark in ("\x1b]", "\x07", "\x9b", "\u202e"))
    assert "\ufffd]0;owned\ufffdswims" in shown
