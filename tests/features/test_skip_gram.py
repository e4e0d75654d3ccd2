"""Skip-gram over walks."""

from __future__ import annotations

import numpy as np
import torch

from ontodex.features.skip_gram import NEGATIVES, _loss, train_skip_gram

RNG = np.random.default_rng(2)


def make_walks(count: int) -> np.ndarray:
    """Walks of eight steps among nodes 0-4, others among nodes 5-9."""
    walks = RNG.integers(0, 5, (count, 8), dtype=np.int32)
    walks[count // 2 :] += 5
    return walks


def train(walks: np.ndarray, **changes) -> np.ndarray:
    settings = {"size": 8, "window": 3, "passes": 3, "seed": 1} | changes
    return train_skip_gram(walks, 10, **settings)


def test_nodes_of_the_same_walks_get_similar_vectors():
    vectors = train(make_walks(400))
    assert vectors.dtype == np.float32
    assert vectors.shape == (10, 8)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = unit @ unit.T
    together = np.arange(10)[:, None] // 5 == np.arange(10) // 5
    assert similarity[together].min() > similarity[~together].max()


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    walks = make_walks(40)
    first = train(walks)
    np.testing.assert_array_equal(train(walks), first)
    assert not np.array_equal(train(walks, seed=2), first)


def test_the_loss_is_that_of_all_pairs_and_their_negatives():
    """A window of 1 has one neighbour at each side; every negative is node 1."""
    torch.manual_seed(3)
    inner, outer = torch.randn(3, 4), torch.randn(3, 4)
    walk = [0, 1, 2]
    marks = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)
    true, false, n_pairs = 0.0, 0.0, 0
    for here, node in enumerate(walk):
        for there, other in enumerate(walk):
            if abs(here - there) == 1:
                true += float(-torch.sigmoid(inner[node] @ outer[other]).log())
                false += float(-torch.sigmoid(-inner[node] @ outer[1]).log())
                n_pairs += 1
    found = _loss(inner, outer, torch.tensor([walk]), marks, window=1)
    torch.testing.assert_close(float(found), (true + NEGATIVES * false) / n_pairs)
