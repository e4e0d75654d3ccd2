from __future__ import annotations

import numpy as np
import pytest
import torch

from ontodex.models.dxml.clusters import (
    ClusterIndex,
    find_nearest_centres,
    run_k_means,
    search_all,
)


def unit(n: int, seed: int, size: int = 12) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, size)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


MEMORY, QUERIES = unit(300, 0), unit(40, 1)


def memory(n_clusters: int = 9, *, with_faiss: bool) -> ClusterIndex:
    return ClusterIndex(run_k_means(MEMORY, n_clusters, seed=0), MEMORY, with_faiss=with_faiss)


@pytest.mark.parametrize("with_faiss", [True, False])
def test_all_clusters_together_give_the_exact_neighbours(with_faiss):
    found = memory(with_faiss=with_faiss).search(QUERIES, 5, probe=9)
    exact = np.argsort(-(QUERIES @ MEMORY.T), axis=1)[:, :5]
    np.testing.assert_array_equal(found.docs, exact)
    similarity = np.take_along_axis(QUERIES @ MEMORY.T, exact, axis=1)
    np.testing.assert_allclose(found.similarity, similarity, atol=1e-4)


@pytest.mark.parametrize("probe", [1, 2, 5])
def test_neighbours_come_from_the_nearest_clusters_by_faiss_and_by_numpy(probe):
    ours, theirs = (memory(with_faiss=by).search(QUERIES, 8, probe) for by in (False, True))
    np.testing.assert_array_equal(ours.docs, theirs.docs)
    np.testing.assert_array_equal(ours.similarity, theirs.similarity)
    clusters = memory(with_faiss=False)
    own = find_nearest_centres(MEMORY, clusters.centres, 1)[:, 0]
    for query, docs in zip(QUERIES, ours.docs, strict=True):
        distance = [float(np.square(query - centre).sum()) for centre in clusters.centres]
        probed = np.argsort(distance)[:probe]
        allowed = np.flatnonzero(np.isin(own, probed))
        best = allowed[np.argsort(-(MEMORY[allowed] @ query))][:8]
        np.testing.assert_array_equal(docs[docs >= 0], best)


@pytest.mark.parametrize("with_faiss", [True, False])
def test_one_query_at_a_time_gives_the_same_neighbours(with_faiss):
    clusters = memory(with_faiss=with_faiss)
    together = clusters.search(QUERIES, 7, 3)
    for row in range(len(QUERIES)):
        alone = clusters.search(QUERIES[row : row + 1], 7, 3)
        np.testing.assert_array_equal(alone.docs[0], together.docs[row])


@pytest.mark.parametrize("with_faiss", [True, False])
def test_equal_vectors_are_taken_by_number(with_faiss):
    same = np.repeat(unit(1, 5), 40, axis=0)
    found = ClusterIndex(same[:1], same, with_faiss=with_faiss).search(same[:1], 40, 1)
    assert found.docs[0].tolist() == list(range(40))


@pytest.mark.parametrize("with_faiss", [True, False])
def test_a_small_cluster_gives_fewer_neighbours(with_faiss):
    two = np.array([[1, 0], [0.9, 0.1], [0, 1]], np.float32)
    found = ClusterIndex(two[[0, 2]], two, with_faiss=with_faiss).search(two[2:], 3, 1)
    assert found.docs[0].tolist() == [2, -1, -1]
    assert found.weigh(3, 0.0, 3).toarray().tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("with_faiss", [True, False])
def test_added_vectors_are_found_under_the_next_numbers(with_faiss):
    clusters = memory(with_faiss=with_faiss)
    clusters.search(QUERIES, 3, 2)  # the old search is built already
    found = clusters.add(QUERIES).search(QUERIES, 1, 2)
    assert found.docs[:, 0].tolist() == list(range(300, 340))


def test_k_means_finds_planted_groups_and_takes_fewer_vectors_than_clusters():
    rng = np.random.default_rng(3)
    places = np.array([[0, 0], [10, 0], [0, 10]], np.float32)
    points = np.concatenate([p + rng.normal(scale=0.1, size=(20, 2)) for p in places])
    for seed in range(4):
        centres = run_k_means(points.astype(np.float32), 12, seed=seed)
        far = np.linalg.norm(points[:, None] - centres[None], axis=2).min(axis=1)
        assert far.max() < 1
    assert len(run_k_means(MEMORY[:3], 10, seed=0)) == 3


def test_a_search_of_all_vectors_gives_the_nearest():
    found = search_all(QUERIES, MEMORY, 5, torch.device("cpu"))
    exact = np.argsort(-(QUERIES @ MEMORY.T), axis=1)[:, :5]
    np.testing.assert_array_equal(found.docs, exact)
    assert search_all(QUERIES[:0], MEMORY, 5, torch.device("cpu")).docs.shape == (0, 5)
