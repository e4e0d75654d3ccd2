"""Beam search against all sequences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ontodex.config import vary
from ontodex.models.levelwise.config import PointerConfig
from ontodex.models.levelwise.pointer import (
    CandidateBatches,
    CandidateLabels,
    Hierarchy,
    Pointer,
)
from ontodex.models.levelwise.pointer_beam_search import search
from ontodex.models.levelwise.pointer_network import PointerNetwork

THREE = Hierarchy(np.array([1, 1, 2]), csr_array((3, 3)), np.array([3, 2, 1]))


def every_sequence_scored(
    pointer: Pointer, predicted: CandidateLabels
) -> dict[tuple[int, ...], float]:
    """log p of each sequence of distinct labels with its stop, one step after the other, over the
    labels not yet emitted."""
    network = pointer.require_network()
    candidates = CandidateBatches(predicted, pointer.config, THREE, torch.device("cpu")).batch(
        np.array([0])
    )
    encoded, start = network.encode_candidates(candidates)
    scores: dict[tuple[int, ...], float] = {}

    def follow(emitted: tuple[int, ...], log_p: float) -> None:
        before = torch.tensor([[network.stop, *emitted]])
        p = network.compute_distribution(encoded, network.run_steps(encoded, start, before))[
            0, -1
        ].clone()
        p[list(emitted)] = 0
        p = (p / p.sum()).tolist()
        scores[emitted] = log_p + np.log(p[network.stop])
        for label in set(range(3)) - set(emitted):
            follow((*emitted, label), log_p + np.log(p[label]))

    with torch.no_grad():
        follow((), 0.0)
    return scores


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("order", ["forward", "any"])
@pytest.mark.parametrize("reward", [0.0, 1.0, -1.0])
def test_a_wide_beam_finds_the_best_of_all_sequences(reward, order):
    predicted = CandidateLabels.of(np.array([[0, 2]]), np.array([[0.7, 0.4]]), THREE.level)
    for seed in range(5):
        torch.manual_seed(seed)
        config = vary(PointerConfig(embedding=8, hidden=8), beam=40, max_labels=5, order=order)
        pointer = Pointer(config, THREE)
        pointer.network = PointerNetwork(config, THREE).eval()
        for parameter in pointer.network.parameters():
            torch.nn.init.normal_(parameter, std=0.6)
        scores = every_sequence_scored(pointer, predicted)
        best = max(scores, key=lambda labels: scores[labels] + reward * len(labels))
        batch = CandidateBatches(predicted, config, THREE, torch.device("cpu")).batch(np.array([0]))
        with torch.inference_mode():
            found = search(pointer.network, batch, beam=40, max_labels=5, reward=reward)
        assert [c for c in found.columns[0].tolist() if c >= 0] == list(best)
