"""Equations of the paper in plain loops, for several suites."""

from __future__ import annotations

import torch
from torch import Tensor


def maxima_by_loops(x: Tensor, lengths: Tensor, chunks: int) -> Tensor:
    """Section 2.1.3: place t of L is in chunk floor(t chunks / L); no place, no value."""
    out = torch.zeros(len(x), chunks, x.shape[2], dtype=x.dtype)
    for n, length in enumerate(lengths.tolist()):
        places: dict[int, list[int]] = {}
        for t in range(length):
            places.setdefault(t * chunks // length, []).append(t)
        for chunk, inside in places.items():
            for d in range(x.shape[2]):
                out[n, chunk, d] = max(float(x[n, t, d]) for t in inside)
    return out
