"""Scorers: how the nodes of one level of the label tree score a document.

Each node owns a row of a table (node_tables.py): its vectors, in the order of `node_vectors`, and a
bias. A scorer scores all nodes of its level, or each document's own candidates. All levels of
LightAttention score by label attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers.label_attention import (
    attend,
    attend_candidates,
    explain_logit,
    project_tokens,
)


class EncodedBatch(NamedTuple):
    """A batch of documents as label attention reads it."""

    h: Tensor  # (n, t, d)
    mask: Tensor  # (n, t)


class NodeVector(NamedTuple):
    """A vector that each node of a level owns."""

    width: int
    std: float  # of its initial values


class Scorer(Protocol):
    """Scores documents by the nodes of a level."""

    table: nn.Module

    def __call__(self, encoded: Any, nodes: Tensor) -> Tensor:
        """Return (n, c): the logits of each document's own nodes (n, c)."""
        ...

    def score_all(self, encoded: Any) -> Tensor:
        """Return (n, l): the logits of all nodes of the level."""
        ...


class AttentionScorer(nn.Module):
    """Scores a document by label attention (LightAttention, Eq. 2), fully connected layers shared
    by all nodes, and an output vector and a bias of each node (section III-D)."""

    MAX_TOP_NODES: ClassVar[int] = 2**12  # nodes of the top level, which is always scored whole

    def __init__(self, width: int, layers: Sequence[int], table: nn.Module) -> None:
        super().__init__()
        self.widths = [*(vector.width for vector in self.node_vectors(width, layers)), 1]
        self.table = table
        # The first layer is applied to tokens before attention, whose weights sum to one.
        self.project = nn.Linear(width, layers[0])
        self.deeper = nn.ModuleList(nn.Linear(*widths) for widths in pairwise(layers))

    @staticmethod
    def node_vectors(width: int, layers: Sequence[int]) -> list[NodeVector]:
        """Return the attention query, as wide as a state, and the output vector."""
        return [NodeVector(width, 0.02), NodeVector(layers[-1], 0.05)]

    def forward(self, encoded: EncodedBatch, nodes: Tensor) -> Tensor:
        query, output, bias = self.table(nodes).split(self.widths, dim=-1)
        return self.attend_to(encoded, query, output) + bias[..., 0]  # (n, c)

    def attend_to(self, encoded: Any, query: Tensor, output: Tensor) -> Tensor:
        """Return (n, c): what attention adds to the logits of each document's own nodes."""
        h, values = encoded.h, project_tokens(self.project, encoded.h)  # (n, t, d), (n, t, v)
        # In the precision of h: autocast would widen the (n, c, t) scores for the softmax.
        with torch.autocast(h.device.type, enabled=False):
            m = attend_candidates(h, values, query.to(h.dtype), encoded.mask)  # (n, c, v)
        return self.read_out(m, output)

    def score_all(self, encoded: EncodedBatch) -> Tensor:
        assert isinstance(self.table, nn.Embedding)
        query, output, bias = self.table.weight.split(self.widths, dim=-1)
        return self.attend_to_all(encoded, query, output) + bias[:, 0]

    def attend_to_all(self, encoded: Any, query: Tensor, output: Tensor) -> Tensor:
        """Return (n, l): what attention adds to the logits of all nodes."""
        values = project_tokens(self.project, encoded.h)  # (n, t, v)
        return self.read_out(attend(encoded.h, values, query, encoded.mask), output)

    def read_out(self, m: Tensor, output: Tensor) -> Tensor:
        """Return the logits of the vectors m (..., v) that nodes read, by their output vectors."""
        m = F.relu(m)
        for layer in self.deeper:
            m = F.relu(layer(m))
        wide = torch.promote_types(m.dtype, torch.float32)
        return (m * output.to(m.dtype)).sum(-1, dtype=wide)

    def find_vectors(self, node: int, like: Tensor) -> Sequence[Tensor]:
        """Return the vectors of a node, and its bias, with the device and precision of `like`."""
        row = self.table(torch.tensor([node], device=like.device))[0].to(like.dtype)
        return row.split(self.widths)

    def explain_logit(self, encoded: Any, node: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a node, by attention."""
        query, output, *_ = self.find_vectors(node, encoded.h)
        values = self.project(encoded.h)
        return explain_logit(
            encoded.h, values, query, encoded.mask, lambda m: self.read_out(m, output)
        )
