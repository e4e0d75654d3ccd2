"""The rendered steps of a label set: two steps over three predictions of two levels."""

from __future__ import annotations

import dataclasses
import html
import json

import numpy as np
import pytest

from ontodex.render.set_attention import (
    format_set_attention,
    set_attention_page,
    set_attention_to_dict,
)
from ontodex.types import LabelSpace
from ontodex.types.answers import SetAttention

NAMES = ("Water", "Rivers", "<script>", "Weirs")
LABELS = LabelSpace(NAMES, np.ones(4, np.int64), 10)
LEVEL_ATTENTION = np.array([[0.25, 0.75], [0.5, 0.5]])
STEPS = SetAttention(
    predicted=np.array([0, 1, 3]),
    predicted_probabilities=np.array([0.5, 0.9, 0.3], np.float32),
    predicted_levels=np.array([1, 2, 2]),
    chosen=np.array([1, 0]),
    chosen_probabilities=np.array([0.75, 0.5], np.float32),
    generated=np.array([0.1, 0.2]),
    attention=np.array([[0.25, 0.745, 0.005], [0.5, 0.2, 0.3]]),
    level_attention=LEVEL_ATTENTION,
    coverage=LEVEL_ATTENTION.cumsum(axis=0),
)
NO_STEPS = dataclasses.replace(
    STEPS,
    chosen=np.empty(0, np.int64),
    chosen_probabilities=np.empty(0, np.float32),
    generated=np.empty(0),
    attention=np.empty((0, 3)),
    level_attention=np.empty((0, 2)),
    coverage=np.empty((0, 2)),
)


def test_the_terminal_shows_each_step_with_its_coverage_and_what_it_attended_to():
    lines = format_set_attention(STEPS, LABELS).splitlines()
    # The highest coverage, 1.25, is a full block; 0.25, 0.75 and 0.75 are 2, 5 and 5 eighths.
    # An attention under 0.01 is left out.
    assert lines[:5] == [
        "              level",
        "chance  new    1   2  chosen, and the predictions it attended to",
        " 0.750 0.10    ▂   ▅  Rivers  <- Rivers 0.74, Water 0.25",
        " 0.500 0.20    ▅   █  Water  <- Water 0.50, Weirs 0.30, Rivers 0.20",
        "   coverage  0.8 1.2",
    ]
    assert [line.split(":")[0] for line in lines[5:]] == ["chance", "new", "coverage"]


def test_programs_get_the_chance_of_a_step_under_its_own_name():
    """It is not the probability that `suggest` shows for the label."""
    record = json.loads(json.dumps(set_attention_to_dict(STEPS, LABELS)))
    assert record["chosen"][0] == {
        "label": "Rivers",
        "name": "Rivers",
        "chance": 0.75,
        "generated": 0.1,
        "attention": [0.25, 0.745, 0.005],
        "level_attention": [0.25, 0.75],
        "coverage": [0.25, 0.75],
    }
    assert record["chosen"][1]["coverage"] == [0.75, 1.25]
    assert [(one["label"], one["level"]) for one in record["predicted"]] == [
        ("Water", 1), ("Rivers", 2), ("Weirs", 2),
    ]  # fmt: skip
    assert record["predicted"][1]["probability"] == pytest.approx(0.9)


def test_the_page_has_a_row_for_each_step_and_shades_cells_by_their_share():
    page = set_attention_page(STEPS, LABELS)
    assert page.count("<tr>") == 3
    assert '<th scope="row">Rivers (chance 0.750, new 0.10)</th>' in page
    assert '<td style="--w:0.20">0.25</td><td style="--w:0.60">0.75</td>' in page  # of 1.25
    assert "<span>level 2</span>" in page
    assert "<span>2: Weirs</span>" in page
    assert "chance: of this label as the next one" in page


def test_names_are_escaped_on_the_page():
    hostile = dataclasses.replace(STEPS, predicted=np.array([2, 2, 2]), chosen=np.array([2, 2]))
    page = set_attention_page(hostile, LABELS)
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 5


def test_without_a_label_set_the_predictions_are_shown_best_first():
    text = format_set_attention(NO_STEPS, LABELS)
    head, *lines, note = text.splitlines()
    assert head == "no label was chosen; the levels predicted"
    assert lines == [" 0.900  level 2  Rivers", " 0.500  level 1  Water", " 0.300  level 2  Weirs"]
    assert note.startswith("predicted: only labels near their threshold")
    page = set_attention_page(NO_STEPS, LABELS)
    assert html.escape(text) in page
    assert "<table>" not in page


def test_a_set_without_predictions_can_be_shown():
    alone = dataclasses.replace(
        STEPS,
        predicted=np.empty(0, np.int64),
        predicted_probabilities=np.empty(0, np.float32),
        predicted_levels=np.empty(0, np.int64),
        attention=np.empty((2, 0)),
    )
    assert "Rivers  <- nothing" in format_set_attention(alone, LABELS)
    assert set_attention_page(alone, LABELS).count("<tr>") == 3
