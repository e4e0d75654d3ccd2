"""Scorers of `attentive-tree`: label attention with a bag of words, and one vector a document.

DocumentScorer       one vector a document: pooled states and bag of words        (generators)
BagAttentionScorer   label attention, fully connected layers, and a bag of words  (labels)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.lightattention.scorers import AttentionScorer, NodeVector


class PooledBatch(NamedTuple):
    """A batch of documents as generators read it."""

    pooled: Tensor  # (n, d): the maximum of each state over the tokens
    bag: Tensor  # (n, w)


class AttendedBatch(NamedTuple):
    """A batch of documents as labels read it."""

    h: Tensor  # (n, t, d)
    mask: Tensor  # (n, t)
    bag: Tensor  # (n, w)


class DocumentScorer(nn.Module):
    """Scores a document by one vector: the product with the node's vector, and the node's bias. A
    level of any size can be scored whole, as one matrix product."""

    MAX_TOP_NODES: ClassVar[int] = 2**17  # nodes of the top level, which is always scored whole

    def __init__(self, width: int, config: AttentiveTreeConfig, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.project = nn.Linear(width, config.layers[0])

    @staticmethod
    def node_vectors(config: AttentiveTreeConfig) -> list[NodeVector]:
        return [NodeVector(config.layers[0] + config.bag, 0.02)]

    def forward(self, encoded: PooledBatch, nodes: Tensor) -> Tensor:
        """Return (n, c): the logits of each document's own nodes (n, c)."""
        rows = self.table(nodes)  # (n, c, v + w + 1)
        z = self.embed_document(encoded)  # (n, v + w)
        return torch.bmm(rows[..., :-1], z[:, :, None])[..., 0] + rows[..., -1]

    def score_all(self, encoded: PooledBatch) -> Tensor:
        """Return (n, l): the logits of all nodes of the level."""
        assert isinstance(self.table, nn.Embedding)
        rows = self.table.weight  # (l, v + w + 1)
        return self.embed_document(encoded) @ rows[:, :-1].T + rows[:, -1]

    def embed_document(self, encoded: PooledBatch) -> Tensor:
        z = F.relu(self.project(encoded.pooled))  # (n, v)
        return torch.cat([z, encoded.bag], dim=-1)  # (n, v + w)


class BagAttentionScorer(AttentionScorer):
    """Label attention, and an output vector of each label for the bag of words."""

    def __init__(self, width: int, layers: Sequence[int], table: nn.Module, bag: int) -> None:
        super().__init__(width, layers, table)
        self.widths = [*self.widths[:-1], bag, 1]

    def forward(self, encoded: AttendedBatch, nodes: Tensor) -> Tensor:  # type: ignore[override]
        query, output, bag_output, bias = self.table(nodes).split(self.widths, dim=-1)
        bag_logits = torch.bmm(bag_output, encoded.bag[:, :, None])[..., 0]  # (n, c)
        return self.attend_to(encoded, query, output) + bag_logits + bias[..., 0]

    def score_all(self, encoded: AttendedBatch) -> Tensor:  # type: ignore[override]
        assert isinstance(self.table, nn.Embedding)
        query, output, bag_output, bias = self.table.weight.split(self.widths, dim=-1)
        bag_logits = encoded.bag @ bag_output.T  # (n, l)
        return self.attend_to_all(encoded, query, output) + bag_logits + bias[:, 0]


def list_node_vectors(
    width: int, config: AttentiveTreeConfig, height: int
) -> list[list[NodeVector]]:
    """Return, for each level below the root, the vectors that its nodes own besides a bias; `width`
    is that of a state of the encoder."""
    attention = AttentionScorer.node_vectors(width, config.layers)
    labels = [*attention, NodeVector(config.bag, 0.02)]
    return [DocumentScorer.node_vectors(config)] * height + [labels]
