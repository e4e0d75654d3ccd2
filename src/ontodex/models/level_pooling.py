"""Category-dependent dynamic max pooling (paper 000, section 2.1.3).

    streams (n,t,d) ─ max in p_g chunks ─ batch norm, dropout ─ bottleneck of each category g (n,b)

On a GPU chunk maxima are a kernel of their own: pooling_kernel.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.level_plan import Category

Read = tuple[Tensor, Tensor]  # features (n, t, d), lengths (n,)


def chunk_maxima(x: Tensor, lengths: Tensor, chunks: Chunks) -> Tensor:
    """(n, c, d): P[c], the maximum of each near-equal chunk of each sequence's own length (section
    2.1.3). Place t of a sequence of length L is in chunk floor(t p / L) of p; a chunk that is
    empty, because the sequence is shorter than p, is 0. x is (n, t, d)."""
    if x.is_cuda and find_spec("triton"):
        from ontodex.models.pooling_kernel import Maxima  # imports Triton

        return cast(Tensor, Maxima.apply(x, lengths, chunks.table))
    return segment_maxima(x, lengths, chunks)


@dataclass(frozen=True)
class Chunks:
    """All chunks of all these numbers of them, one after the other."""

    parts: Sequence[int]
    table: Tensor  # (2, c): the number of each chunk, and of how many

    @classmethod
    def of(cls, parts: Sequence[int]) -> Chunks:
        pairs = [(number, p) for p in parts for number in range(p)]
        return cls(parts, torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T.contiguous())


def segment_maxima(x: Tensor, lengths: Tensor, chunks: Chunks) -> Tensor:
    """`chunk_maxima` in plain operations."""
    return torch.cat([_segment_maxima(x, lengths, p) for p in chunks.parts], dim=1)


def _segment_maxima(x: Tensor, lengths: Tensor, chunks: int) -> Tensor:
    number = torch.arange(chunks + 1, device=x.device)
    edges = (number * lengths[:, None] + chunks - 1) // chunks  # first places, and the end
    sizes = torch.cat([edges.diff(dim=1), x.shape[1] - lengths[:, None]], dim=1)
    # Where there is one place only, a transposed x may pass for contiguous with strides that
    # segment_reduce takes at their word; flat and back again, they are the usual ones.
    x = x.flatten().view(x.shape)
    pooled = torch.segment_reduce(x, "max", lengths=sizes, axis=1, unsafe=True)[:, :chunks]
    return pooled.masked_fill((sizes[:, :chunks] == 0)[:, :, None], 0)


class CategoryPools(nn.Module):
    """Category-dependent dynamic max pooling and the bottleneck of each category.

    Categories with equally many chunks pool the same numbers, so their bottlenecks are rows of one
    matrix. Each stream is pooled on its own: no chunk mixes two. A stream of sets is never cut
    finer than its longest set.
    """

    def __init__(
        self,
        categories: Sequence[Category],
        streams: Mapping[str, tuple[int, int]],  # name -> (features of a place, most places)
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
        # Without its own scale and shift: the bottleneck after it has both.
        self.norm = _Norm(sum(self.widths), affine=False)
        self.drop = nn.Dropout(dropout)
        self.bottlenecks = nn.ModuleList(
            nn.Linear(width, bottleneck * len(by_part[p]))
            for p, width in zip(self.parts, self.widths, strict=True)
        )
        at = torch.tensor([g for p in self.parts for g in by_part[p]], dtype=torch.long)
        self.register_buffer("order", at.argsort(), persistent=False)
        for name in streams:
            table = Chunks.of(self.cut(name)).table
            self.register_buffer(f"{name}_chunks", table, persistent=False)
        self.bottleneck = bottleneck

    def cut(self, name: str) -> list[int]:
        """Into how many chunks a stream is cut, for each of `parts`."""
        return [min(p, self.most[name]) for p in self.parts]

    def columns_but(self, without: Collection[str]) -> list[Tensor]:
        """For each of `parts`, which columns of its bottleneck read other streams than these."""
        return [
            torch.cat(
                [
                    torch.full((features * min(p, self.most[name]),), name not in without)
                    for name, features in self.features.items()
                ]
            )
            for p in self.parts
        ]

    def forward(self, streams: Mapping[str, Read]) -> Tensor:
        by_stream = [self.maxima(name, *read) for name, read in streams.items()]
        # Streams come in different precisions on a GPU; batch norm takes its figures in fp32.
        pooled = [maxima[i].flatten(1) for i in range(len(self.parts)) for maxima in by_stream]
        z = self.drop(self.norm(_wide(torch.cat(pooled, dim=1)))).split(self.widths, dim=1)
        read = [
            F.relu(bottleneck(one)).unflatten(1, (-1, self.bottleneck))
            for one, bottleneck in zip(z, self.bottlenecks, strict=True)
        ]
        assert isinstance(self.order, Tensor)
        return torch.cat(read, dim=1).index_select(1, self.order)  # (n, g, b)

    def maxima(self, name: str, x: Tensor, lengths: Tensor) -> Sequence[Tensor]:
        """For each of `parts`, the maxima of a stream's chunks."""
        parts = self.cut(name)
        chunks = Chunks(parts, self.get_buffer(f"{name}_chunks"))
        return chunk_maxima(x, lengths, chunks).split(parts, dim=1)


class CategoryOutput(nn.Module):
    """What the bottleneck of each category says of its labels, (n, g, b) -> (n, l); a label in
    several categories has the mean of its logits there."""

    def __init__(self, categories: Sequence[Category], n_labels: int, bottleneck: int) -> None:
        super().__init__()
        self.n_labels = n_labels
        self.sizes = [len(category.members) for category in categories]
        self.rows = nn.Parameter(torch.randn(sum(self.sizes), bottleneck) * 0.02)
        places = [place for category in categories for place in category.members.tolist()]
        members = torch.tensor(places, dtype=torch.long)
        self.register_buffer("members", members, persistent=False)
        share = 1 / torch.bincount(members, minlength=n_labels).clamp(min=1)[members]
        self.register_buffer("share", share, persistent=False)
        # Rows for each category, as many as the largest has, and which are its own.
        sizes = torch.tensor(self.sizes, dtype=torch.long)
        first = sizes.cumsum(0)[:, None] - sizes[:, None]
        number = torch.arange(max(self.sizes, default=0))
        slots = (first + number) % max(1, len(members))  # (g, most)
        self.register_buffer("slots", slots, persistent=False)
        own = (number < sizes[:, None]).flatten().nonzero()[:, 0]
        self.register_buffer("own", own, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        logits = self.together(z) if z.is_cuda else self.one_by_one(z)  # (n, labels of each g)
        share, members = self.get_buffer("share"), self.get_buffer("members")
        none = share.new_zeros(len(z), self.n_labels)
        return none.index_add(1, members, logits.to(none.dtype) * share)

    def one_by_one(self, z: Tensor) -> Tensor:
        rows = self.rows.to(z.dtype).split(self.sizes)
        return torch.cat([F.linear(one, w) for one, w in zip(z.unbind(1), rows, strict=True)], 1)

    def together(self, z: Tensor) -> Tensor:
        """`one_by_one` as a GPU likes it: one product for all categories, each as large as the
        largest."""
        slots, own = self.get_buffer("slots"), self.get_buffer("own")
        rows = self.rows.index_select(0, slots.flatten()).unflatten(0, slots.shape)
        logits = torch.bmm(z.transpose(0, 1), rows.transpose(1, 2))  # (g, n, most)
        return logits.transpose(0, 1).flatten(1).index_select(1, own)

    def hold(self, norm: float) -> None:
        """Scale back the rows that are longer than `norm` (section 3.3)."""
        with torch.no_grad():
            size = self.rows.norm(dim=1, keepdim=True)
            self.rows.mul_((norm / size.clamp(min=1e-12)).clamp(max=1))


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _Norm(nn.BatchNorm1d):
    """Batch norm that takes the running figures for a batch of one, whose variance says nothing."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, eps=self.eps)
