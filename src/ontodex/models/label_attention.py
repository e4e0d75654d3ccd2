"""Label attention: every label reads the document with its own query (paper 002, Eq. 4 and 5).

    a[n,l,t] = softmax over t of q[l]·h[n,t]        m[n,l] = sum over t of a[n,l,t] h[n,t]

Attention weights sum to one and the first fully connected layer is linear, so W1 m + b = sum over t
of a (W1 h + b): tokens are projected once to the small value width, and labels attend there. All
scores are one matrix product, labels x (documents x tokens).
"""

from __future__ import annotations

import torch
from torch import Tensor

# On a CPU labels are read in blocks, so that the scores of a batch stay in the cache.
LABEL_BLOCK = 512


def attend(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """(n, l, v): the values of each document as each label reads them.

    h (n, t, d) keys, values (n, t, v), queries (l, d), mask (n, t) True where a token is.
    """
    if h.is_cuda:
        return _attend_flat(h, values, queries, mask)
    blocks = [torch.bmm(attention(h, block, mask), values) for block in queries.split(LABEL_BLOCK)]
    return torch.cat(blocks, dim=1)


def attention(h: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """(n, l, t): the weights themselves, for a few labels or a CPU."""
    scores = torch.einsum("ntd,ld->nlt", h, queries)
    return scores.masked_fill(~mask[:, None, :], -torch.inf).softmax(dim=-1)


def _attend_flat(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    # Autocast would widen the (l, n, t) scores to fp32 for the softmax, which sums in fp32 anyway.
    with torch.autocast(h.device.type, enabled=False):
        return _flat(h, values.to(h.dtype), queries.to(h.dtype), mask)


def _flat(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    n, t, d = h.shape
    # The mask is one more key dimension that every query reads with weight 1: no pass over the
    # (l, n, t) scores is spent on it. Eight columns keep rows aligned for the matrix units.
    wall = torch.zeros(n, t, 8, dtype=h.dtype, device=h.device)
    wall[:, :, 0] = torch.where(mask, 0.0, -3e4)
    ones = torch.zeros(queries.shape[0], 8, dtype=queries.dtype, device=queries.device)
    ones[:, 0] = 1
    keys = torch.cat([h, wall], dim=-1).view(n * t, d + 8)
    scores = torch.cat([queries, ones], dim=-1) @ keys.T  # (l, n t)
    a = scores.view(-1, n, t).softmax(dim=-1)  # (l, n, t)
    return torch.bmm(a.permute(1, 0, 2), values)  # (n, l, v)  # fmt: skip


def attend_candidates(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """(n, c, v): as `attend`, with each document's own candidate labels: queries (n, c, d)."""
    scores = torch.bmm(queries, h.transpose(1, 2))
    a = scores.masked_fill(~mask[:, None, :], -torch.inf).softmax(dim=-1)
    return torch.bmm(a, values)
