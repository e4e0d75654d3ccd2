"""Beam search of the pointer generator for the most probable label sets (section 2.2).

Many documents are decoded at once. A beam that has emitted the stop symbol keeps its score and
stays in the beam while it is among the best. No label is emitted twice: emitted labels are masked,
and the rest is renormalised.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ontodex.models.levelwise.pointer_network import (
    SMALLEST,
    Candidates,
    DecoderSteps,
    EncodedCandidates,
    PointerNetwork,
)


class DecodedSets(NamedTuple):
    """The best sequence of each document, in the order of emission."""

    columns: Tensor  # (n, max_labels), -1 after the last
    probabilities: Tensor  # (n, max_labels), of each step given those before it


def search(
    network: PointerNetwork, candidates: Candidates, *, beam: int, max_labels: int, reward: float
) -> DecodedSets:
    """Return the sets with the highest log p (Eq. 4) + `reward` x labels that the beam finds."""
    encoded, state = network.encode_candidates(candidates)
    n, stop = len(candidates.columns), network.stop
    last = candidates.columns.new_full((n, 1), stop)  # (n, s): each document starts with one beam
    labels = last[:, :, None][:, :, :0]  # (n, s, steps)
    chances = encoded.h.new_zeros(n, 1, 0)
    score = encoded.h.new_zeros(n, 1)
    bonus = F.pad(encoded.h.new_full((stop,), reward), (0, 1))  # (l + 1,), 0 for the stop symbol
    for _ in range(max_labels):
        finished = (last == stop) & (labels.shape[2] > 0)
        if bool((finished | score.isneginf()).all()):
            break
        y = network.labels(last)
        floor = network.compute_floor(last)
        state, attention, end = network.step(encoded, state, y, floor)
        steps = DecoderSteps(state.s, state.context, attention, end, y, floor)
        p = _compute_next(network, encoded, steps, labels)
        gain = p.log() + bonus
        p, gain = (
            _keep_finished(p, finished, 1.0, 0.0),
            _keep_finished(gain, finished, 0.0, -torch.inf),
        )
        total = (score[:, :, None] + gain).flatten(1)  # (n, s * (l + 1))
        score, flat = total.topk(min(beam, total.shape[1]), dim=1)
        parent, last = flat // (stop + 1), flat % (stop + 1)  # (n, beam)
        state = state.take(parent)
        labels = torch.cat([_select_beams(labels, parent), last[:, :, None]], dim=2)
        chance = p.flatten(1).gather(1, flat)
        chances = torch.cat([_select_beams(chances, parent), chance[:, :, None]], dim=2)
    best, chance = labels[:, 0], chances[:, 0]
    pad = (0, max_labels - best.shape[1])
    return DecodedSets(
        F.pad(best.masked_fill(best == stop, -1), pad, value=-1),
        F.pad(chance.masked_fill(best == stop, 0.0), pad),
    )


def _compute_next(
    network: PointerNetwork, encoded: EncodedCandidates, steps: DecoderSteps, labels: Tensor
) -> Tensor:
    """Return p (n, s, l + 1) of every label not yet emitted, and of the stop symbol, never 0."""
    p = network.compute_distribution(encoded, steps)
    p = p.scatter(2, labels, 0.0)
    p[:, :, network.stop] = p[:, :, network.stop].clamp(min=SMALLEST)
    return p / p.sum(-1, keepdim=True)


def _keep_finished(x: Tensor, finished: Tensor, stopping: float, others: float) -> Tensor:
    """Let finished beams only stop again, at no cost."""
    x = x.masked_fill(finished[:, :, None], others)
    x[:, :, -1] = x[:, :, -1].masked_fill(finished, stopping)
    return x


def _select_beams(x: Tensor, parent: Tensor) -> Tensor:
    return x.gather(1, parent[:, :, None].expand(-1, -1, x.shape[2]))
