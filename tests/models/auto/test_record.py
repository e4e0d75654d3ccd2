"""The record of a search, in sentences and as a page."""

from __future__ import annotations

from ontodex.models.auto.page import make_page
from ontodex.models.auto.record import describe_choice

CANDIDATES = [
    {"system": "linear", "settings": {"cost": 2.0}, "weight": 1.0, "ndcg": 0.8, "f1": 0.5,
     "adds": 0.1, "milliseconds": 2.0},
    {"system": "knn", "settings": {}, "weight": 0.25, "ndcg": 0.7, "f1": 0.4, "adds": 0.002,
     "milliseconds": 3.0},
    {"system": "lexical", "settings": {}, "weight": 0.0, "ndcg": 0.6, "f1": 0.3, "adds": 0.0,
     "milliseconds": 90.0},
]  # fmt: skip


def make_record(**changes):
    trial = {"system": "knn", "settings": {}, "rung": "all 9 documents", "ndcg": 0.7, "f1": 0.4,
             "fit_seconds": 1.0, "rank_seconds": 0.5, "failure": ""}  # fmt: skip
    record = {
        "budget": 600.0, "seconds": 65.0, "measured_on": "1,476 dev documents", "ndcg": 0.8125,
        "f1": 0.5125, "join": "odds", "candidates": CANDIDATES, "too_slow": [], "trials": [trial],
        "left_out": {}, "remarks": [],
    }  # fmt: skip
    return record | changes


def test_the_choice_names_members_with_weights_and_the_best_single_system():
    assert describe_choice(make_record()) == [
        "chosen: linear cost=2.0 (weight 1), knn (weight 0.25)",
        "joined by the weighted mean of log-odds: nDCG@5 81.25, F1@5 51.25 on 1,476 dev documents",
        "the best single system is linear cost=2.0: nDCG@5 80.00",
        "1 trial in 1:05 of 10:00",
    ]


def test_a_single_member_is_joined_with_nothing():
    first, *_ = describe_choice(make_record(candidates=CANDIDATES[:1]))
    assert first.startswith("chosen: linear cost=2.0, nDCG@5 81.25")
    assert first.endswith("no other adds to it")


def test_the_page_says_why_a_candidate_or_a_trial_is_left_out():
    failed = {**make_record()["trials"][0], "system": "kernel", "failure": "no memory"}
    page = make_page(
        make_record(
            too_slow=["lexical"],
            trials=[failed],
            left_out={"bonsai": "for <100> labels or more"},
        )
    )
    assert "too slow" in page
    assert "failed" in page
    assert "for &lt;100&gt; labels or more" in page
    assert "The budget was" in page
    assert "left out" in make_page(make_record())
