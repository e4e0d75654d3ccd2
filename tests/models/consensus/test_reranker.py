from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.models.consensus.member_selection import measure_ndcg
from ontodex.models.consensus.reranker import FIRST, LabelCounts, Reranker, look_up
from ontodex.types import LabelSpace, Ranking

N_DOCS, N_LABELS = 300, 60


def make_labels(gold: csr_array) -> LabelSpace:
    frequency = np.asarray(gold.sum(axis=0)).astype(np.int64)
    return LabelSpace(tuple(map(str, range(gold.shape[1]))), frequency, gold.shape[0])


def make_gold(rng: np.random.Generator, n_docs: int = N_DOCS) -> csr_array:
    """The first labels are frequent, the last ones rare."""
    share = np.linspace(0.3, 0.02, N_LABELS)
    return csr_array((rng.random((n_docs, N_LABELS)) < share).astype(np.int8))


def make_members(rng: np.random.Generator, gold: csr_array) -> list[csr_array]:
    """The first member knows frequent labels, the second one rare labels."""
    half = np.arange(N_LABELS) < N_LABELS // 2
    members = []
    for sharp in (np.where(half, 0.1, 0.6), np.where(half, 0.6, 0.1)):
        p = 0.3 + 0.4 * gold.toarray() + sharp * rng.standard_normal(gold.shape)
        members.append(csr_array(np.clip(p, 0, 0.99)))
    return members


def join(members: list[csr_array]) -> Ranking:
    return Ranking.top(sum(m.toarray() for m in members) / len(members), N_LABELS)


@pytest.fixture
def counts() -> LabelCounts:
    gold = make_gold(np.random.default_rng(0))
    return LabelCounts.of(make_labels(gold), gold)


def test_members_that_know_different_labels_are_weighed_by_frequency(counts):
    rng = np.random.default_rng(1)
    gold, other = make_gold(rng), make_gold(rng)
    members, others = make_members(rng, gold), make_members(rng, other)
    reranker, held_out = Reranker.fit(join(members), members, gold, counts)
    assert measure_ndcg(gold, held_out) > measure_ndcg(gold, join(members)) + 0.02
    new = reranker.rank(join(others), others)
    assert measure_ndcg(other, new) > measure_ndcg(other, join(others)) + 0.02


def test_only_the_first_labels_change_places(counts):
    rng = np.random.default_rng(2)
    gold = make_gold(rng)
    members = make_members(rng, gold)
    before = join(members)
    reranker, _ = Reranker.fit(before, members, gold, counts)
    after = reranker.rank(before, members)
    assert not np.array_equal(after.columns[:, :FIRST], before.columns[:, :FIRST])
    np.testing.assert_array_equal(after.columns[:, FIRST:], before.columns[:, FIRST:])
    for row in range(N_DOCS):
        assert set(after.columns[row]) == set(before.columns[row])


def test_a_document_has_the_same_answer_alone(counts):
    rng = np.random.default_rng(3)
    gold = make_gold(rng)
    members = make_members(rng, gold)
    reranker, _ = Reranker.fit(join(members), members, gold, counts)
    together = reranker.rank(join(members), members)
    alone = [csr_array(member[[7]]) for member in members]
    one = reranker.rank(join(alone), alone)
    np.testing.assert_array_equal(one.columns[0], together.columns[7])
    np.testing.assert_array_equal(one.probabilities[0], together.probabilities[7])


def test_company_in_loops():
    gold = csr_array(np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1]], np.int8))
    counts = LabelCounts.of(make_labels(gold), gold)
    ranking = Ranking(np.array([[0, 1, 2]], np.int32), np.array([[0.5, 0.4, 0.25]], np.float32))
    together, own = (gold.T @ gold).toarray(), [3, 2, 2]
    expected = []
    for label in range(3):
        total = 0.0
        for other, p in zip((0, 1, 2), (0.5, 0.4, 0.25), strict=True):
            if other != label:
                by_chance = own[other] * own[label] / 4
                total += p * np.log((together[other, label] + 1) / (by_chance + 1))
        expected.append(total / (1.15 + 0.1))
    found = counts.measure_company(ranking)
    np.testing.assert_allclose(found, [expected], rtol=1e-6)


def test_padding_and_labels_that_came_later_have_no_company(counts):
    ranking = Ranking(np.array([[0, N_LABELS + 3, -1]], np.int32), np.array([[0.5, 0.4, 0]]))
    wider = LabelCounts(np.append(counts.frequency, np.zeros(9, np.int64)), counts.pairs, 300)
    found = wider.measure_company(ranking)
    assert np.all(np.isfinite(found))


def test_cells_outside_a_matrix_are_zero():
    matrix = csr_array(np.array([[0.0, 2.0], [3.0, 0.0]]))
    rows, columns = np.array([[0, 0, 1, 1, -1, 2]]), np.array([[1, 0, 0, 5, 0, 0]])
    assert look_up(matrix, rows, columns).tolist() == [[2.0, 0.0, 3.0, 0.0, 0.0, 0.0]]


def test_a_saved_model_answers_the_same_and_a_damaged_one_is_refused(counts, tmp_path):
    rng = np.random.default_rng(4)
    gold = make_gold(rng)
    members, labels = make_members(rng, gold), make_labels(make_gold(np.random.default_rng(0)))
    reranker, _ = Reranker.fit(join(members), members, gold, counts)
    reranker.save(tmp_path)
    loaded = Reranker.load(tmp_path, labels, 2, reranker.calibration)
    expected = reranker.rank(join(members), members)
    again = loaded.rank(join(members), members)
    np.testing.assert_array_equal(again.columns, expected.columns)
    np.testing.assert_array_equal(again.probabilities, expected.probabilities)
    with pytest.raises(RunError, match="reranker"):
        Reranker.load(tmp_path, labels, 3, Calibration.identity())


def test_a_concept_without_training_documents_is_ranked_by_its_evidence():
    rng = np.random.default_rng(5)
    trained = make_gold(rng).toarray()
    trained[:, -1] = 0
    counts = LabelCounts.of(make_labels(csr_array(trained)), csr_array(trained))
    gold = make_gold(rng)
    members = make_members(rng, gold)
    always, never = gold.toarray(), gold.toarray()
    always[:, -1], never[:, -1] = 1, 0
    models = [
        Reranker.fit(join(members), members, csr_array(one), counts)[0].model
        for one in (always, never)
    ]
    np.testing.assert_array_equal(models[0].weights, models[1].weights)
    ranking = Ranking(np.array([[0, N_LABELS - 1]], np.int32), np.array([[0.5, 0.4]], np.float32))
    assert counts.measure_company(ranking)[0, 1] == 0
