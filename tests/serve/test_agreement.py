"""Agreement of two people, by hand."""

from __future__ import annotations

import pytest

from ontodex.serve.agreement import compare_pairs, measure_consistency


def verdicts(**labels):
    return {label: {"verdict": verdict} for label, verdict in labels.items()}


def test_consistency_is_twice_the_common_labels_over_both_sets():
    assert measure_consistency({"a", "b", "c"}, {"b", "c", "d", "e"}) == pytest.approx(4 / 7)
    assert measure_consistency(set(), {"a"}) == 0
    assert measure_consistency(set(), set()) == 1


def test_each_two_people_are_compared_on_the_documents_that_both_decided():
    documents = {
        1: {"ada": verdicts(a="accept", b="add"), "bob": verdicts(a="accept", b="reject")},
        2: {"ada": verdicts(a="reject"), "bob": verdicts(a="reject")},
        3: {"ada": verdicts(a="accept")},
    }
    assert compare_pairs(documents) == [
        {"users": ["ada", "bob"], "n_documents": 2, "agreement": pytest.approx((2 / 3 + 1) / 2)}
    ]
