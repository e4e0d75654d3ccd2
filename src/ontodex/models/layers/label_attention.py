"""Label attention: every label reads the document with its own query (AttentionXML, Eq. 4 and 5).

    a[n,l,t] = softmax over t of q[l]·h[n,t]        m[n,l] = sum over t of a[n,l,t] h[n,t]

Attention weights sum to one and the first fully connected layer is linear, so W1 m + b = sum over t
of a (W1 h + b). Tokens are therefore projected once to the small value width, and labels attend
there. All scores are one matrix product, labels x (documents x tokens).

`LabelAttention` is the layer, `LabelReadOut` has a bias for each label. `compute_label_logits`
computes logits, `attend` the vectors before the read-out, `attend_candidates` those of each
document's own candidates, `compute_attention` the weights, and `explain_logit` the contribution of
each token. bench/gpu_layers.py and bench/cpu_attention.py measure their speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers.bf16_units import has_bf16_units

# Labels a CPU scores at once, so that the scores of a batch stay in the cache.
LABEL_BLOCK = 512
# Fewer labels take a small part of the time of a document, which bf16 would not shorten.
MIN_BF16_LABELS = 1024


class LabelAttention(nn.Module):
    """Attention of each label over the tokens with a query, a fully connected layer that all labels
    share, and an output vector for each label."""

    def __init__(self, width: int, value_dim: int, n_labels: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.empty(n_labels, width))
        nn.init.xavier_uniform_(self.queries)
        self.project = nn.Linear(width, value_dim)  # applied before attention
        self.output = nn.Parameter(torch.randn(n_labels, value_dim) * 0.05)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        values = project_tokens(self.project, h)  # (n, t, v)
        return compute_label_logits(h, values, self.queries, self.output, mask)  # (n, l)

    def explain_logit(self, h: Tensor, mask: Tensor, label: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        query, output = self.queries[label], self.output[label]
        return explain_logit(h, self.project(h), query, mask, lambda m: compute_logits(m, output))


class LabelReadOut(LabelAttention):
    """Label attention with an output vector and a bias for each label.

    With one output vector for all labels, as in AttentionXML, labels differ only in their
    attention, which starts uniform, so all start with the same logit and learn slowly.
    """

    def __init__(self, width: int, value_dim: int, log_odds: Tensor) -> None:
        super().__init__(width, value_dim, len(log_odds))
        self.bias = nn.Parameter(log_odds.clone())

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        return super().forward(h, mask) + self.bias  # (n, l)


def compute_label_logits(
    h: Tensor, values: Tensor, queries: Tensor, output: Tensor, mask: Tensor
) -> Tensor:
    """Return (n, l): the vector each label reads, through ReLU, times the label's output vector.

    h (n, t, d) are keys, values (n, t, v), queries (l, d), output (l, v), or (1, v) for all labels;
    mask (n, t) is True at tokens.
    """
    output = output.expand(len(queries), -1)
    if not h.is_cuda:
        blocks = zip(
            attend_blocks(h, values, queries, mask), output.split(LABEL_BLOCK), strict=True
        )
        return torch.cat([compute_logits(m, o) for m, o in blocks], dim=1)
    # Autocast would widen the (l, n, t) scores to fp32 for the softmax, which sums in fp32 anyway.
    with torch.autocast("cuda", enabled=False):
        return _choose_form(h)(h, values.to(h.dtype), queries.to(h.dtype), output.to(h.dtype), mask)


def project_tokens(project: nn.Linear, h: Tensor) -> Tensor:
    """Return (n, t, v): the tokens projected to the value width, in the precision of h. An LSTM
    gives h in fp16 under bf16 autocast, and converting h and its gradient would cost as much as
    the product."""
    is_half = h.dtype in (torch.float16, torch.bfloat16)
    with torch.autocast(h.device.type, dtype=h.dtype if is_half else None, enabled=is_half):
        values: Tensor = project(h)
    return values


def attend(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """Return (n, l, v): the attention-weighted mean of the values for each label."""
    if not h.is_cuda:
        return torch.cat(list(attend_blocks(h, values, queries, mask)), dim=1).to(h.dtype)
    with torch.autocast("cuda", enabled=False):
        return attend_flat(h, values.to(h.dtype), queries.to(h.dtype), mask)


def attend_blocks(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Iterator[Tensor]:
    """Yield the result of `attend` for consecutive blocks of labels, (n, block, v), on a CPU.

    To rank by many labels it computes in bf16 where the CPU has units for it, and without padding.
    """
    blocks = queries.split(LABEL_BLOCK)
    is_plain = torch.is_grad_enabled() or h.dtype != torch.float32 or not has_bf16_units()
    if is_plain or len(queries) < MIN_BF16_LABELS:
        for block in blocks:
            yield torch.bmm(compute_attention(h, block, mask), values)
        return
    keys, values = h.bfloat16(), values.bfloat16()
    docs = [(k[real], v[real]) for k, v, real in zip(keys, values, mask, strict=True)]
    for block in blocks:
        q = block.bfloat16()
        yield torch.stack([(q @ k.T).softmax(dim=-1) @ v for k, v in docs])


def compute_attention(h: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """Return (n, l, t): the attention weights, for a few labels or on a CPU."""
    scores = torch.einsum("ntd,ld->nlt", h, queries)
    return scores.masked_fill(~mask[:, None, :], -torch.inf).softmax(dim=-1)


def explain_logit(
    h: Tensor, values: Tensor, query: Tensor, mask: Tensor, logit: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return (n, t): the contribution of each token to a label's logit, which is `logit` of the
    vector (n, v) the label reads. The contribution is a first-order one, and exact where one ReLU
    and an output vector follow."""
    a = compute_attention(h, query[None], mask)[:, 0]  # (n, t)
    with torch.enable_grad():
        m = torch.einsum("nt,ntv->nv", a, values).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(logit(m).sum(), m)
    return a * torch.einsum("ntv,nv->nt", values, gradient)


def attend_candidates(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """Return (n, c, v): the same for each document's own candidates with queries (n, c, d)."""
    scores = torch.bmm(queries, h.transpose(1, 2))
    a = scores.masked_fill(~mask[:, None, :], -torch.inf).softmax(dim=-1)
    return torch.bmm(a, values)


def compute_logits(m: Tensor, output: Tensor) -> Tensor:
    """Return the logits (n, l) of the vectors m (n, l, v) that labels read."""
    wide = torch.promote_types(m.dtype, torch.float32)
    return (F.relu(m) * output).sum(-1, dtype=wide)  # (n, l)


def compute_flat_logits(
    h: Tensor, values: Tensor, queries: Tensor, output: Tensor, mask: Tensor
) -> Tensor:
    """Compute label logits in the fastest form for a GPU; all arguments have one precision."""
    return compute_logits(attend_flat(h, values, queries, mask), output)


def attend_flat(h: Tensor, values: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
    """Return the result of `attend`, with one matrix product for all scores."""
    # Tensor cores are slow with rows whose length is no multiple of 8. Padding is added even where
    # it is not needed, so that one compiled form serves all batches.
    more = 8 - h.shape[1] % 8
    h, values, mask = (
        F.pad(h, (0, 0, 0, more)),
        F.pad(values, (0, 0, 0, more)),
        F.pad(mask, (0, more)),
    )
    n, t, d = h.shape
    # The mask is one more key dimension that every query multiplies by 1, which saves a pass over
    # the (l, n, t) scores. Eight columns keep these rows aligned too.
    bias = torch.zeros(n, t, 8, dtype=h.dtype, device=h.device)
    bias[:, :, 0] = torch.where(mask, 0.0, -3e4)
    ones = torch.zeros(queries.shape[0], 8, dtype=queries.dtype, device=queries.device)
    ones[:, 0] = 1
    keys = torch.cat([h, bias], dim=-1).view(n * t, d + 8)
    scores = torch.cat([queries, ones], dim=-1) @ keys.T  # (l, n t)
    a = scores.view(-1, n, t).softmax(dim=-1)  # (l, n, t)
    return torch.bmm(a.permute(1, 0, 2), values)  # (n, l, v)  # fmt: skip


def _choose_form(h: Tensor) -> Callable[..., Tensor]:
    """Return the compiled form where gradients are needed: compiling takes seconds, which only
    training recovers. One form serves all batches: documents and tokens vary, the rest is fixed."""
    if not torch.is_grad_enabled() or find_spec("triton") is None:
        return compute_flat_logits
    torch._dynamo.maybe_mark_dynamic(h, 0)
    torch._dynamo.maybe_mark_dynamic(h, 1)
    return compile_flat_logits()


@cache
def compile_flat_logits() -> Callable[..., Tensor]:
    return torch.compile(compute_flat_logits)
