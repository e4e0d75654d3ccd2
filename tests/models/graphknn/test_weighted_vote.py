"""The choices of a weighted vote."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ontodex.models.dxml.clusters import ClusterIndex
from ontodex.models.dxml.neighbour_system import Choices
from ontodex.models.graphknn.weighted_vote import (
    EXPONENTS,
    NEIGHBOURS,
    WeightedVoteConfig,
    choose_vote_and_probe,
)

START = Choices(epochs=3, neighbours=10, exponent=0.0, probe=1)
# Four clusters on the unit circle. Documents 0 to 2 lie in the first, 3 alone in the second.
ANGLES = np.array([0.0, 0.05, 0.1, 1.5, 3.1, 4.7])
VECTORS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)
CENTRES = VECTORS[[1, 3, 4, 5]]
GOLD = csr_array(np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]], np.float32))


def make_system():
    memory = ClusterIndex(CENTRES, VECTORS, with_faiss=False)
    return SimpleNamespace(memory=memory, gold=GOLD, chosen=START, device=torch.device("cpu"))


def choose(query: float, label: int, counts=(1, 3), exponents=(0.0,)) -> Choices:
    queries = np.array([[np.cos(query), np.sin(query)]], np.float32)
    gold = csr_array(np.eye(2, dtype=np.float32)[[label]])
    return choose_vote_and_probe(make_system(), queries, gold, counts, exponents)


def test_the_fewest_clusters_that_find_the_neighbours_are_searched():
    # The nearest cluster has the right label.
    assert choose(0.05, 0) == Choices(epochs=3, neighbours=1, exponent=0.0, probe=1)
    # All 3 neighbours are needed, one of them from the second cluster.
    found = choose(0.7, 1, counts=(4,))
    assert (found.neighbours, found.probe) == (4, 2)


def test_without_labels_the_choices_stay():
    empty = csr_array((1, 2), dtype=np.float32)
    found = choose_vote_and_probe(make_system(), VECTORS[:1], empty, (1, 3), (0.0,))
    assert found == START


def test_settings_that_are_given_leave_nothing_to_choose():
    assert WeightedVoteConfig().list_votes() == (NEIGHBOURS, EXPONENTS)
    assert WeightedVoteConfig(neighbours=7, exponent=0.0).list_votes() == ((7,), (0.0,))


@pytest.mark.parametrize(("given", "expected"), [(-1.0, 20.0), (0.0, 0.0), (3.0, 3.0)])
def test_the_exponent_before_dev_is_the_one_given_or_20(given, expected):
    chosen = WeightedVoteConfig(exponent=given).start_choices(START)
    assert (chosen.exponent, chosen.probe) == (expected, 8)
