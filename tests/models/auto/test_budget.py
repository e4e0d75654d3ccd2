from __future__ import annotations

import math

import pytest

from ontodex.models.auto.budget import Budget, estimate_seconds
from ontodex.models.auto.trials import Trial


def trial(documents: int, seconds: float, splits: int = 1, **settings: object) -> Trial:
    return Trial("linear", settings, "rung", documents, splits, fit_seconds=seconds)


def test_time_that_was_spent_before_a_kill_counts():
    budget = Budget(100.0)
    budget.spend(30.0)
    assert 69 < budget.left <= 70
    assert budget.spent >= 30


def test_a_system_without_a_trial_has_no_estimate():
    assert estimate_seconds([], "linear", {}, 1_000) == math.inf
    failed = Trial("linear", {}, "rung", 1_000, failure="no labels")
    assert estimate_seconds([failed], "linear", {}, 1_000) == math.inf


def test_the_growth_of_the_cost_is_that_of_the_last_two_sizes():
    trials = [trial(1_000, 2.0), trial(4_000, 16.0)]  # 4 times the documents, 8 times the time
    assert estimate_seconds(trials, "linear", {}, 16_000) == pytest.approx(128.0)
    assert estimate_seconds(trials, "linear", {}, 4_000) == pytest.approx(16.0)


def test_a_cost_that_grows_slower_than_the_documents_has_a_fixed_part():
    """20 s and 5 ms a document: other work on the machine, or names to collect."""
    trials = [trial(1_000, 25.0), trial(4_000, 40.0)]
    assert estimate_seconds(trials, "linear", {}, 16_000) == pytest.approx(100.0)
    assert estimate_seconds(trials, "linear", {}, 4_000, splits=2) == pytest.approx(80.0)
    slow = trial(1_000, 50.0, ngrams=2)
    assert estimate_seconds([*trials, slow], "linear", {"ngrams": 2}, 4_000) == pytest.approx(80.0)


def test_a_first_trial_that_was_held_up_does_not_multiply():
    """41 s on a busy machine, then 12 s for four times the documents."""
    trials = [trial(700, 41.0), trial(2_800, 12.0)]
    assert estimate_seconds(trials, "linear", {}, 11_200) == pytest.approx(12.0)


def test_settings_of_their_own_cost_are_scaled_by_the_growth_of_the_defaults():
    trials = [trial(1_000, 2.0), trial(4_000, 8.0), trial(1_000, 6.0, ngrams=2)]
    assert estimate_seconds(trials, "linear", {"ngrams": 2}, 4_000) == pytest.approx(24.0)
    assert estimate_seconds(trials, "linear", {"cost": 2}, 4_000) == pytest.approx(8.0)


def test_five_folds_cost_five_times_one_fold():
    assert estimate_seconds([trial(800, 3.0)], "linear", {}, 800, splits=5) == pytest.approx(15.0)
    five = [trial(800, 15.0, splits=5)]
    assert estimate_seconds(five, "linear", {}, 800) == pytest.approx(3.0)
