"""Category-dependent dynamic max pooling (Deep Level-wise XMLC, section 2.1.3).

    streams (n,t,d) ─ max in p_g chunks ─ batch norm, dropout ─ bottleneck of each category g (n,b)

On a GPU one kernel computes all chunk maxima: models/kernels/pooling.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.levelwise.levels import Category

StreamFeatures = tuple[Tensor, Tensor]  # features (n, t, d), lengths (n,)


def compute_chunk_maxima(x: Tensor, lengths: Tensor, chunks: Chunks) -> Tensor:
    """Return P[c] (n, c, d), the maximum of each chunk of x (n, t, d) (section 2.1.3).

    Chunks are near-equal parts of each sequence's own length: position t of a sequence of length L
    is in chunk floor(t p / L) of p. A sequence shorter than p has empty chunks, which are 0.
    """
    if x.is_cuda and find_spec("triton"):
        from ontodex.models.kernels.pooling import Maxima  # imports Triton

        return cast(Tensor, Maxima.apply(x, lengths, chunks.table))
    return compute_segment_maxima(x, lengths, chunks)


@dataclass(frozen=True)
class Chunks:
    """The chunks of several divisions of a text, concatenated."""

    parts: Sequence[int]  # chunks of each division
    table: Tensor  # (2, c): the index of each chunk, and the chunks of its division

    @classmethod
    def of(cls, parts: Sequence[int]) -> Chunks:
        pairs = [(number, p) for p in parts for number in range(p)]
        return cls(
            parts, torch.tensor(pairs, dtype=torch.long, device="cpu").reshape(-1, 2).T.contiguous()
        )


def compute_segment_maxima(x: Tensor, lengths: Tensor, chunks: Chunks) -> Tensor:
    """Return the same as `compute_chunk_maxima`, in PyTorch operations."""
    return torch.cat([_compute_segment_maxima(x, lengths, p) for p in chunks.parts], dim=1)


def _compute_segment_maxima(x: Tensor, lengths: Tensor, chunks: int) -> Tensor:
    number = torch.arange(chunks + 1, device=x.device)
    edges = (number * lengths[:, None] + chunks - 1) // chunks  # first positions, and the end
    sizes = torch.cat([edges.diff(dim=1), x.shape[1] - lengths[:, None]], dim=1)
    # A transposed x with one position counts as contiguous, but segment_reduce trusts its unusual
    # strides. Flattening restores the usual ones.
    x = x.flatten().view(x.shape)
    pooled = torch.segment_reduce(x, "max", lengths=sizes, axis=1, unsafe=True)[:, :chunks]
    return pooled.masked_fill((sizes[:, :chunks] == 0)[:, :, None], 0)


class CategoryPools(nn.Module):
    """Category-dependent dynamic max pooling, and the bottleneck layer of each category.

    Categories with the same number of chunks pool the same features, so their bottlenecks are rows
    of one matrix. Each stream is pooled separately. A stream of keywords
    or labels has at most as many chunks as its longest list.
    """

    def __init__(
        self,
        categories: Sequence[Category],
        streams: Mapping[str, tuple[int, int]],  # name -> (features of a position, maximum length)
        bottleneck: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.parts = sorted({category.chunks for category in categories})
        self.most = {name: places for name, (_, places) in streams.items()}
        self.features = {name: features for name, (features, _) in streams.items()}
        by_part = {p: [g for g, c in enumerate(categories) if c.chunks == p] for p in self.parts}
        self.widths = [
            sum(width * min(p, places) for width, places in streams.values()) for p in self.parts
        ]
        # Without scale and shift: the bottleneck after it has both.
        self.norm = _BatchNorm(sum(self.widths), affine=False)
        self.drop = nn.Dropout(dropout)
        self.bottlenecks = nn.ModuleList(
            nn.Linear(width, bottleneck * len(by_part[p]))
            for p, width in zip(self.parts, self.widths, strict=True)
        )
        order = [g for p in self.parts for g in by_part[p]]
        at = torch.tensor(order, dtype=torch.long, device="cpu")  # buffers never are on "meta"
        self.register_buffer("order", at.argsort(), persistent=False)
        for name in streams:
            table = Chunks.of(self.count_chunks(name)).table
            self.register_buffer(f"{name}_chunks", table, persistent=False)
        self.bottleneck = bottleneck

    def count_chunks(self, name: str) -> list[int]:
        """Return the number of chunks of a stream for each of `parts`."""
        return [min(p, self.most[name]) for p in self.parts]

    def mark_columns_without(self, without: Collection[str]) -> list[Tensor]:
        """Return, for each of `parts`, which inputs of its bottleneck come from other streams."""
        return [
            torch.cat(
                [
                    torch.full((features * min(p, self.most[name]),), name not in without)
                    for name, features in self.features.items()
                ]
            )
            for p in self.parts
        ]

    def forward(self, streams: Mapping[str, StreamFeatures]) -> Tensor:
        """Return the bottleneck features (n, g, b) of all categories."""
        by_stream = [self.pool_stream(name, *read) for name, read in streams.items()]
        # Streams have different precisions on a GPU; batch norm computes its statistics in fp32.
        pooled = [maxima[i].flatten(1) for i in range(len(self.parts)) for maxima in by_stream]
        z = self.drop(self.norm(_to_float32(torch.cat(pooled, dim=1)))).split(self.widths, dim=1)
        read = [
            F.relu(bottleneck(one)).unflatten(1, (-1, self.bottleneck))
            for one, bottleneck in zip(z, self.bottlenecks, strict=True)
        ]
        assert isinstance(self.order, Tensor)
        return torch.cat(read, dim=1).index_select(1, self.order)  # (n, g, b)

    def pool_stream(self, name: str, x: Tensor, lengths: Tensor) -> Sequence[Tensor]:
        """Return the chunk maxima of a stream for each of `parts`."""
        parts = self.count_chunks(name)
        chunks = Chunks(parts, self.get_buffer(f"{name}_chunks"))
        return compute_chunk_maxima(x, lengths, chunks).split(parts, dim=1)


class CategoryOutput(nn.Module):
    """The output layer of each category, (n, g, b) -> (n, l).

    A label in several categories has the mean of its logits there.
    """

    def __init__(self, categories: Sequence[Category], n_labels: int, bottleneck: int) -> None:
        super().__init__()
        self.n_labels = n_labels
        self.sizes = [len(category.members) for category in categories]
        self.rows = nn.Parameter(torch.randn(sum(self.sizes), bottleneck) * 0.02)
        places = [place for category in categories for place in category.members.tolist()]
        members = torch.tensor(places, dtype=torch.long, device="cpu")
        self.register_buffer("members", members, persistent=False)
        share = 1 / torch.bincount(members, minlength=n_labels).clamp(min=1)[members]
        self.register_buffer("share", share, persistent=False)
        # Padded rows of each category, as many as the largest has, and which are real.
        sizes = torch.tensor(self.sizes, dtype=torch.long, device="cpu")
        first = sizes.cumsum(0)[:, None] - sizes[:, None]
        number = torch.arange(max(self.sizes, default=0), device="cpu")
        slots = (first + number) % max(1, len(members))  # (g, most)
        self.register_buffer("slots", slots, persistent=False)
        own = (number < sizes[:, None]).flatten().nonzero()[:, 0]
        self.register_buffer("own", own, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        logits = self.apply_batched(z) if z.is_cuda else self.apply_each(z)  # (n, labels of each g)
        share, members = self.get_buffer("share"), self.get_buffer("members")
        none = share.new_zeros(len(z), self.n_labels)
        return none.index_add(1, members, logits.to(none.dtype) * share)

    def apply_each(self, z: Tensor) -> Tensor:
        """Return the logits of each category's labels, one product per category."""
        rows = self.rows.to(z.dtype).split(self.sizes)
        return torch.cat([F.linear(one, w) for one, w in zip(z.unbind(1), rows, strict=True)], 1)

    def apply_batched(self, z: Tensor) -> Tensor:
        """Return the same as `apply_each` in one batched product, for a GPU. Categories are padded
        to the size of the largest."""
        slots, own = self.get_buffer("slots"), self.get_buffer("own")
        rows = self.rows.index_select(0, slots.flatten()).unflatten(0, slots.shape)
        logits = torch.bmm(z.transpose(0, 1), rows.transpose(1, 2))  # (g, n, most)
        return logits.transpose(0, 1).flatten(1).index_select(1, own)

    def limit_row_norms(self, norm: float) -> None:
        """Scale rows with a norm above `norm` down to it (section 3.3)."""
        with torch.no_grad():
            size = self.rows.norm(dim=1, keepdim=True)
            self.rows.mul_((norm / size.clamp(min=1e-12)).clamp(max=1))


def _to_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _BatchNorm(nn.BatchNorm1d):
    """Batch norm that uses the running statistics for a batch of one, which has no variance."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, eps=self.eps)
