from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.evaluation.ranking import ndcg, score_documents
from ontodex.models.consensus.joins import JOINS, compute_evidence
from ontodex.models.consensus.member_selection import (
    CandidateTable,
    JoinedScores,
    select_members,
    tune_weights,
)
from ontodex.types import Ranking

N_DOCS, N_LABELS = 120, 30


def make_gold(rng: np.random.Generator) -> csr_array:
    return csr_array((rng.random((N_DOCS, N_LABELS)) < 0.1).astype(np.int8))


def make_member(rng: np.random.Generator, gold: csr_array, noise: float) -> csr_array:
    """Probabilities around 0.2, 0.3 more for true labels; only those above 0.2 are ranked."""
    p = 0.2 + 0.3 * gold.toarray() + noise * rng.standard_normal(gold.shape)
    return csr_array(np.where(p > 0.2, np.clip(p, 0, 0.99), 0))


@pytest.mark.parametrize("join", JOINS)
def test_the_score_of_weights_is_that_of_the_combined_ranking_in_loops(join):
    rng = np.random.default_rng(1)
    gold = make_gold(rng)
    members = [make_member(rng, gold, noise) for noise in (0.1, 0.3)]
    weights = np.array([1.0, 0.5])
    total = sum(
        w * compute_evidence(m.toarray(), join) for w, m in zip(weights, members, strict=True)
    )
    ranking = Ranking.top(total / total.max(), 5)
    some = np.diff(gold.indptr) > 0
    expected = score_documents(ndcg, 5, gold, ranking)[some].mean()
    table = CandidateTable.of(members, gold)
    assert JoinedScores(table, join).score(weights) == pytest.approx(expected)


def test_gold_labels_that_no_member_ranks_or_knows_count_as_misses():
    gold = csr_array(np.array([[1, 1, 0, 1]], np.int8))  # the last column is past the label space
    member = csr_array(np.array([[0.9, 0.0, 0.2]]))
    score = JoinedScores(CandidateTable.of([member], gold), "mean").score(np.ones(1))
    ideal = sum(1 / np.log2([2, 3, 4]))
    assert score == pytest.approx(1 / ideal)


def test_a_member_that_only_adds_noise_is_left_out_and_says_so():
    rng = np.random.default_rng(2)
    gold = make_gold(rng)
    good, other, noise = (make_member(rng, gold, s) for s in (0.15, 0.15, 5.0))
    found = select_members(CandidateTable.of([noise, good, other], gold))
    assert found.chosen == [1, 2]
    assert found.score > max(found.alone)
    assert found.without[1] < found.score
    assert found.without[0] == found.score
    lines = found.describe(["noise", "good", "other"])
    assert "left out: adds less than 0.05" in lines[-1]
    assert lines[-1].startswith("noise")


def test_a_copy_of_a_member_adds_nothing():
    rng = np.random.default_rng(3)
    gold = make_gold(rng)
    member = make_member(rng, gold, 0.2)
    found = select_members(CandidateTable.of([member, member], gold))
    assert found.chosen == [0]
    assert found.score == pytest.approx(found.alone[0])


def test_members_of_a_selection_stay_within_the_latency():
    rng = np.random.default_rng(4)
    gold = make_gold(rng)
    table = CandidateTable.of([make_member(rng, gold, s) for s in (0.1, 0.15, 0.2)], gold)
    everything = select_members(table)
    assert 0 in everything.chosen
    fast = select_members(table, latencies=[50.0, 10.0, 20.0], max_latency=30.0)
    assert fast.chosen == [1, 2]
    assert 0 in fast.too_slow
    assert "too slow" in fast.describe(["a", "b", "c"])[-1]
    fastest = select_members(table, latencies=[50.0, 10.0, 20.0], max_latency=1.0)
    assert fastest.chosen == [1]


def test_a_label_that_a_member_cannot_know_is_judged_by_the_others():
    gold = csr_array(np.array([[1, 0]], np.int8))
    knows_both = csr_array(np.array([[0.6, 0.5]]))
    knows_second = csr_array(np.array([[0.0, 0.55]]))
    has_label = np.array([[True, True], [False, True]])
    scores = JoinedScores(CandidateTable.of([knows_both, knows_second], gold, has_label), "mean")
    assert scores.score(np.ones(2)) == 1.0  # 0.6 / 1 against (0.5 + 0.55) / 2
    blind = JoinedScores(CandidateTable.of([knows_both, knows_second], gold), "mean")
    assert blind.score(np.ones(2)) < 1.0


def test_weights_of_members_that_are_not_in_use_are_not_tried():
    rng = np.random.default_rng(5)
    gold = make_gold(rng)
    table = CandidateTable.of([make_member(rng, gold, s) for s in (0.1, 0.2)], gold)
    weights, _ = tune_weights(JoinedScores(table, "odds"), np.array([1.0, 0.0]), grid=(0.5, 2.0))
    assert weights[1] == 0.0
