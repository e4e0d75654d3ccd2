from __future__ import annotations

import numpy as np
import pytest

from ontodex.models.consensus.joins import JOINS, compute_evidence, compute_probability


@pytest.mark.parametrize("join", JOINS)
def test_one_member_of_any_weight_keeps_its_probabilities_under_every_join(join):
    p = np.array([0.02, 0.3, 0.5, 0.97])
    assert compute_probability(compute_evidence(p, join), np.ones(4), join) == pytest.approx(p)
    if join != "any":  # Eq. 9 takes the weight as an exponent
        total = 3 * compute_evidence(p, join)
        assert compute_probability(total, np.full(4, 3.0), join) == pytest.approx(p)


def test_the_mean_of_two_members_by_hand():
    total = 3 * compute_evidence(np.array([0.8]), "mean") + compute_evidence(
        np.array([0.4]), "mean"
    )
    assert compute_probability(total, np.array([4.0]), "mean") == pytest.approx([(2.4 + 0.4) / 4])


@pytest.mark.parametrize("join", JOINS)
def test_a_label_that_is_not_ranked_has_no_evidence(join):
    assert compute_evidence(np.array([0.0]), join).tolist() == [0.0]
