"""The attention of labels to words as the AttentionXML paper writes it, for comparison."""

from __future__ import annotations

import math

import torch


def attention_by_loops(
    h: torch.Tensor, queries: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Eq. 4 with no tensor algebra: the m of each document and label."""
    out = torch.zeros(len(h), len(queries), h.shape[2], dtype=h.dtype)
    for n in range(len(h)):
        steps = range(int(lengths[n]))
        for label, query in enumerate(queries):
            powers = [math.exp(float(h[n, t] @ query)) for t in steps]
            for t in steps:
                out[n, label] += powers[t] / sum(powers) * h[n, t]
    return out
