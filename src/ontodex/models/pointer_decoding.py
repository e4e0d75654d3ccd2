"""Beam search for the most probable label set, many documents at once.

A beam that has emitted the stop symbol keeps its place while its score lasts. No label is emitted
twice: what a beam has emitted is impossible in its next step, and the rest is renormalised.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ontodex.models.pointer_network import SMALLEST, Candidates, Encoded, PointerNetwork, Steps


class Found(NamedTuple):
    """The best sequence of each document, in the order it was emitted."""

    columns: Tensor  # (n, max_labels), -1 after the last
    probabilities: Tensor  # (n, max_labels), of each step given those before it


def search(
    network: PointerNetwork, candidates: Candidates, *, beam: int, max_labels: int, reward: float
) -> Found:
    """The sets of the highest log p (Eq. 4) + `reward` x labels that a beam of this width finds."""
    encoded, state = network.encoded(candidates)
    n, stop = len(candidates.columns), network.stop
    last = candidates.columns.new_full((n, 1), stop)  # (n, s): each document begins with one beam
    labels = last[:, :, None][:, :, :0]  # (n, s, steps)
    chances = encoded.h.new_zeros(n, 1, 0)
    score = encoded.h.new_zeros(n, 1)
    bonus = F.pad(encoded.h.new_full((stop,), reward), (0, 1))  # (l + 1,), none for stopping
    for _ in range(max_labels):
        finished = (last == stop) & (labels.shape[2] > 0)
        if bool((finished | score.isneginf()).all()):
            break
        y = network.labels(last)
        floor = network.floor(last)
        state, attention, end = network.step(encoded, state, y, floor)
        steps = Steps(state.s, state.context, attention, end, y, floor)
        p = _next(network, encoded, steps, labels)
        gain = p.log() + bonus
        p, gain = _stay(p, finished, 1.0, 0.0), _stay(gain, finished, 0.0, -torch.inf)
        total = (score[:, :, None] + gain).flatten(1)  # (n, s * (l + 1))
        score, flat = total.topk(min(beam, total.shape[1]), dim=1)
        parent, last = flat // (stop + 1), flat % (stop + 1)  # (n, beam)
        state = state.take(parent)
        labels = torch.cat([_beams(labels, parent), last[:, :, None]], dim=2)
        chance = p.flatten(1).gather(1, flat)
        chances = torch.cat([_beams(chances, parent), chance[:, :, None]], dim=2)
    best, chance = labels[:, 0], chances[:, 0]
    pad = (0, max_labels - best.shape[1])
    return Found(
        F.pad(best.masked_fill(best == stop, -1), pad, value=-1),
        F.pad(chance.masked_fill(best == stop, 0.0), pad),
    )


def _next(network: PointerNetwork, encoded: Encoded, steps: Steps, labels: Tensor) -> Tensor:
    """(n, s, l + 1): the chance of every label but those emitted, and of stopping, never 0."""
    p = network.distribution(encoded, steps)
    p = p.scatter(2, labels, 0.0)
    p[:, :, network.stop] = p[:, :, network.stop].clamp(min=SMALLEST)
    return p / p.sum(-1, keepdim=True)


def _stay(x: Tensor, finished: Tensor, stopping: float, others: float) -> Tensor:
    """Finished beams can only stop again, which costs nothing."""
    x = x.masked_fill(finished[:, :, None], others)
    x[:, :, -1] = x[:, :, -1].masked_fill(finished, stopping)
    return x


def _beams(x: Tensor, parent: Tensor) -> Tensor:
    return x.gather(1, parent[:, :, None].expand(-1, -1, x.shape[2]))
