from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.models.baselines.neighbours import (
    Neighbours,
    append_labels,
    build_label_matrix,
    choose_vote,
    compute_ndcg,
)
from ontodex.types import Corpus, Doc, LabelSpace


def test_shares_of_the_vote_by_hand():
    nearest = Neighbours(np.array([[2, 0]]), np.array([[0.8, 0.4]], dtype=np.float32))
    votes = nearest.weigh(2, 1.0, n_train=3)
    np.testing.assert_allclose(votes.toarray(), [[1 / 3, 0, 2 / 3]], rtol=1e-6)
    votes = nearest.weigh(1, 1.0, n_train=3)
    np.testing.assert_allclose(votes.toarray(), [[0, 0, 1]])


def test_scores_are_the_mean_of_the_neighbours_labels_not_their_sum():
    """Neighbours with 1, 3 and 2 labels, weighted equally: each label counts a third."""
    gold = csr_array(np.array([[1, 0, 0, 0], [1, 1, 1, 0], [0, 1, 0, 1]], np.float32))
    similarity = np.array([[0.9, 0.5, 0.1]], np.float32)
    nearest = Neighbours(np.array([[1, 0, 2]]), similarity)
    mean = nearest.vote(gold, 3, 0.0, 4).scores(4).toarray()[0]
    np.testing.assert_allclose(mean, [2 / 3, 2 / 3, 1 / 3, 1 / 3], rtol=1e-6)
    weighted = nearest.vote(gold, 3, 2.0, 4).scores(4).toarray()[0]
    expected = np.array([0.81, 0.25, 0.01]) @ gold.toarray()[[1, 0, 2]] / (0.81 + 0.25 + 0.01)
    np.testing.assert_allclose(weighted, expected, rtol=1e-6)


def test_the_mean_is_over_the_neighbours_that_exist():
    gold = csr_array(np.array([[1, 0], [1, 1]], np.float32))
    nearest = Neighbours(np.array([[0, 1, -1]]), np.array([[0.8, 0.8, 0]], np.float32))
    found = nearest.vote(gold, 3, 0.0, 2).scores(2).toarray()[0]
    np.testing.assert_allclose(found, [1, 0.5])


def test_a_document_is_not_its_own_neighbour():
    found = Neighbours(
        np.array([[4, 7, 1], [2, 0, 5]]), np.array([[3, 2, 1], [9, 8, 7]], np.float32)
    )
    rest = found.drop_self(np.array([7, 3]))
    assert rest.docs.tolist() == [[4, 1], [2, 0]]
    assert rest.similarity.tolist() == [[3, 1], [9, 8]]


def test_the_vote_with_the_highest_ndcg_is_chosen():
    gold = csr_array(np.array([[1, 0], [0, 1], [0, 1]], np.float32))
    nearest = Neighbours(np.array([[0, 1, 2]]), np.array([[0.9, 0.3, 0.3]], np.float32))
    first, second = (csr_array(np.array([row], np.int8)) for row in ([1, 0], [0, 1]))
    assert choose_vote(nearest, gold, first, (3, 1), (0.0,)) == (1, 0.0)
    assert choose_vote(nearest, gold, second, (3, 1), (0.0,)) == (3, 0.0)
    assert choose_vote(nearest, gold, first, (3,), (0.0, 2.0)) == (3, 2.0)


def test_documents_without_labels_have_no_part_in_ndcg():
    nearest = Neighbours(np.array([[0], [0]]), np.ones((2, 1), np.float32))
    ranking = nearest.vote(csr_array(np.array([[1, 0]], np.float32)), 1, 1.0, 2)
    gold = csr_array(np.array([[1, 0], [0, 0]], np.int8))
    assert compute_ndcg(gold, ranking) == pytest.approx(1)
    assert compute_ndcg(csr_array((2, 2), dtype=np.int8), ranking) == 0


def test_labels_of_new_documents_are_appended_in_new_columns():
    old = Corpus.of([Doc("1", {"t": "x"}, labels=("a",)), Doc("2", {"t": "x"}, labels=("b",))])
    new = Corpus.of([Doc("3", {"t": "x"}, labels=("a", "c"))])
    labels = LabelSpace.of(old)
    wider = LabelSpace((*labels.ids, "c"), np.append(labels.frequency, 1), 3)
    found = append_labels(build_label_matrix(old, labels), new, wider)
    expected = [[label in doc.labels for label in wider.ids] for doc in [*old, *new]]
    assert found.toarray().tolist() == expected
