"""The maxima of chunks of many sequences on a GPU: one Triton kernel for all maxima, one for their
gradients.

    x (n,t,d), lengths (n,), chunks (2,c) ─ for each sequence and chunk: max over its places (n,c,d)

In plain operations each number of chunks needs a gather, a mask and a reduction over all of x. The
levels of `levelwise` have up to seven such numbers each, and launching the operations took longer
than running them.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

FEATURES = 128  # of a program
PLACES = 16  # that a program reads at a time


@triton.jit
def _forward(
    x, lengths, chunks, maxima, places, by_row, by_place, d, c,
    features: tl.constexpr, at_once: tl.constexpr,
):  # fmt: skip
    """Write maxima, places (n, c, d): the maximum of each chunk and its first place; 0 and -1 where
    a chunk is empty. NaN counts as the maximum."""
    row, chunk = (tl.program_id(0) // c).to(tl.int64), tl.program_id(0) % c  # offsets may pass 2^31
    feature = tl.program_id(1) * features + tl.arange(0, features)
    there = feature < d
    length, number = tl.load(lengths + row), tl.load(chunks + chunk)
    of = tl.load(chunks + c + chunk)
    first, after = (number * length + of - 1) // of, ((number + 1) * length + of - 1) // of
    x += row * by_row
    best = tl.full([features], float("-inf"), tl.float32)
    at = tl.full([features], -1, tl.int64)
    start = first
    while start < after:
        place = start + tl.arange(0, at_once)
        inside = (place < after)[:, None] & there[None, :]
        seen = tl.load(
            x + place[:, None] * by_place + feature[None, :], mask=inside, other=float("-inf")
        )
        seen = tl.where(seen != seen, float("inf"), seen.to(tl.float32))
        greatest, which = tl.max(seen, axis=0, return_indices=True)
        is_greater = (greatest > best) | (at < 0)
        best = tl.where(is_greater, greatest, best)
        at = tl.where(is_greater, start + which, at)
        start += at_once
    own = (row * c + chunk) * d + feature
    found = tl.load(x + at * by_place + feature, mask=there & (at >= 0), other=0.0)
    tl.store(maxima + own, found, mask=there)
    tl.store(places + own, at.to(tl.int32), mask=there)


@triton.jit
def _backward(dmaxima, places, dx, t, d, c, features: tl.constexpr):
    """Add gradients to dx (n, t, d), which starts as zeros. A program has all chunks of its
    features, so no two programs write to one place."""
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * features + tl.arange(0, features)
    for chunk in tl.range(
        0, c, num_stages=1
    ):  # a stored value is read again, so loads must not be prefetched
        own = (row * c + chunk) * d + feature
        at = tl.load(places + own, mask=feature < d, other=-1)
        to = dx + (row * t + at) * d + feature
        before = tl.load(to, mask=at >= 0, other=0.0).to(tl.float32)
        gradient = tl.load(dmaxima + own, mask=at >= 0, other=0.0).to(tl.float32)
        tl.store(to, (before + gradient).to(dx.dtype.element_ty), mask=at >= 0)


class Maxima(torch.autograd.Function):
    """Map x (n, t, d) to the maxima (n, c, d) of its chunks; chunk i is number chunks[0, i] of
    chunks[1, i] near-equal ones."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor, chunks: Tensor) -> Tensor:
        n, t, d = x.shape
        c = chunks.shape[1]
        x = x if x.stride(2) == 1 else x.contiguous()
        maxima = x.new_empty(n, c, d)
        places = torch.empty(n, c, d, dtype=torch.int32, device=x.device)
        if n:
            grid = (n * c, triton.cdiv(d, FEATURES))
            _forward[grid](
                x, lengths, chunks, maxima, places, *x.stride()[:2], d, c,
                features=FEATURES, at_once=PLACES,
            )  # fmt: skip
        ctx.save_for_backward(places)
        ctx.t = t
        return maxima

    @staticmethod
    def backward(ctx: Any, dmaxima: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        n, c, d = places.shape
        dx = dmaxima.new_zeros(n, ctx.t, d)
        if n:
            grid = (n, triton.cdiv(d, FEATURES))
            _backward[grid](dmaxima.contiguous(), places, dx, ctx.t, d, c, features=FEATURES)
        return dx, None, None
