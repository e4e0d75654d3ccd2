"""Explanations as marked text."""

from __future__ import annotations

from ontodex.render.explanation import format_explanation
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
