"""Label attention: every label reads the document with its own query (paper 002, Eq. 4 and 5).

    a[n,l,t] = softmax over t of q[l]·h[n,t]        m[n,l] = sum over t of a[n,l,t] h[n,t]

Attention weights sum to one and the first fully connected layer is linear, so W1 m + b = sum over t
of a (W1 h + b): tokens are projected once to the small value width, and labels attend there. All
scores are one matrix product, labels x (documents x tokens).

`label_logits` goes on to the logits; `attend` stops before; `attend_candidates` serves a document
its own labels; `attention` gives the weights themselves, `contributions` what each token adds to a
logit. bench/gpu_layers.py measures them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# On a CPU labels are read in blocks, so that the scores of a batch stay in the cache.
LABEL_BLOCK = 512


def label_logits(
    h: Tensor, values: Tensor, queries: Tensor, output: Tensor, mask: Tensor
) -> Tensor:
    """(n, l): what each label reads, through ReLU, times the label's output vector.

    h (n, t, d) keys, values (n, t, v), queries (l, d), output (l, v) or (1, v) for all labels,
    mask (n, t) True where a token is.
    """
    output = output.expand(len(queries), -1)
    if not h.is_cuda:
        blocks = zip(queries.split(LABEL_BLOCK), output.split(LABEL_BLOCK), strict=True)
        read = [logits_of(torch.bmm(attention(h, q, mask), values), o) for q, o in blocks]
        return torch.cat(read, dim=1)
    # Autocast would widen the (l, n, t) scores to fp32 for the softmax, which sums in fp32 anyway.
    with torch.autocast("cuda", enabled=False):
        return _form(h)(h, values.to(h.dtype), queries.to(h.dtype), output.to(h.dtype), mask)


def tokens_in(project: nn.Linear, h: Tensor) -> Tensor:
    """(n, t, v): the tokens in the width where labels attend. In the precision of h, which an LSTM
    has in fp16 under bf16 autocast: to turn h and its gradient takes as long as the product."""
    is_half = h.dtype in (torch.float16, torch.bfloat16)
    with torch.autocast(h.device.type, dtype=h.dtype if is_half else None, enabled=is_half):
        values: Tensor = project(h)
    return values


def attend(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """(n, l, v): the values of each document as each label reads them."""
    if not h.is_cuda:
        read = [torch.bmm(attention(h, q, mask), values) for q in queries.split(LABEL_BLOCK)]
        return torch.cat(read, dim=1)
    with torch.autocast("cuda", enabled=False):
        return flat_attend(h, values.to(h.dtype), queries.to(h.dtype), mask)


def attention(h: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """(n, l, t): the weights themselves, for a few labels or a CPU."""
    scores = torch.einsum("ntd,ld->nlt", h, queries)
    return scores.masked_fill(~mask[:, None, :], -torch.inf).softmax(dim=-1)


def contributions(
    h: Tensor, values: Tensor, query: Tensor, mask: Tensor, logit: Callable[[Tensor], Tensor]
) -> Tensor:
    """(n, t): what each token adds to the logit of a label, `logit` of what the label reads (n, v):
    to first order, which is all of it where one ReLU and an output vector follow."""
    a = attention(h, query[None], mask)[:, 0]  # (n, t)
    with torch.enable_grad():
        m = torch.einsum("nt,ntv->nv", a, values).detach().requires_grad_()
        (slope,) = torch.autograd.grad(logit(m).sum(), m)
    return a * torch.einsum("ntv,nv->nt", values, slope)


def attend_candidates(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """(n, c, v): what each document's own candidate labels read in it: queries (n, c, d)."""
    scores = torch.bmm(queries, h.transpose(1, 2))
    a = scores.masked_fill(~mask[:, None, :], -torch.inf).softmax(dim=-1)
    return torch.bmm(a, values)


def logits_of(m: Tensor, output: Tensor) -> Tensor:
    """The logits of what labels read."""
    wide = torch.promote_types(m.dtype, torch.float32)
    return (F.relu(m) * output).sum(-1, dtype=wide)  # (n, l)


def flat_logits(h: Tensor, values: Tensor, queries: Tensor, output: Tensor, mask: Tensor) -> Tensor:
    """`label_logits` as a GPU likes it; all arguments in one precision."""
    return logits_of(flat_attend(h, values, queries, mask), output)


def flat_attend(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """`attend` with one product for all scores."""
    # Matrix units are slow with rows that are no multiple of 8 long. Some padding is added always,
    # so that one compiled form serves all batches.
    more = 8 - h.shape[1] % 8
    h, values, mask = (
        F.pad(h, (0, 0, 0, more)),
        F.pad(values, (0, 0, 0, more)),
        F.pad(mask, (0, more)),
    )
    n, t, d = h.shape
    # The mask is one more key dimension that every query reads with weight 1: no pass over the
    # (l, n, t) scores is spent on it. Eight columns keep these rows aligned too.
    wall = torch.zeros(n, t, 8, dtype=h.dtype, device=h.device)
    wall[:, :, 0] = torch.where(mask, 0.0, -3e4)
    ones = torch.zeros(queries.shape[0], 8, dtype=queries.dtype, device=queries.device)
    ones[:, 0] = 1
    keys = torch.cat([h, wall], dim=-1).view(n * t, d + 8)
    scores = torch.cat([queries, ones], dim=-1) @ keys.T  # (l, n t)
    a = scores.view(-1, n, t).softmax(dim=-1)  # (l, n, t)
    return torch.bmm(a.permute(1, 0, 2), values)  # (n, l, v)  # fmt: skip


def _form(h: Tensor) -> Callable[..., Tensor]:
    """Compiled where gradients are wanted: compiling takes seconds, which only training wins back.

    Compiled once for all batches: documents and tokens vary, the rest is fixed.
    """
    if not torch.is_grad_enabled() or find_spec("triton") is None:
        return flat_logits
    torch._dynamo.maybe_mark_dynamic(h, 0)
    torch._dynamo.maybe_mark_dynamic(h, 1)
    return compiled()


@cache
def compiled() -> Callable[..., Tensor]:
    return torch.compile(flat_logits)
