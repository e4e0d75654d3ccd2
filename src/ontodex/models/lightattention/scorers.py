"""Scorers: how the nodes of one level of the label tree score a document.

    DocumentScorer    one vector a document: pooled states and bag of words        (generators)
    AttentionScorer   label attention and fully connected layers                   (discriminator)

Each node owns a row of a table (node_tables.py): its vectors, in the order of `node_vectors`, and a
bias. A scorer scores all nodes of its level, or each document's own candidates.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers.label_attention import (
    attend,
    attend_candidates,
    explain_logit,
    project_tokens,
)
from ontodex.models.lightattention.config import LightAttentionConfig


class EncodedBatch(NamedTuple):
    """A batch of documents as a scorer reads it."""

    h: Tensor  # (n, t, 2d)
    mask: Tensor  # (n, t)
    pooled: Tensor  # (n, 2d): the maximum of each state over the tokens
    bag: Tensor  # (n, w)


class NodeVector(NamedTuple):
    """A vector that each node of a level owns."""

    width: int
    std: float  # of its initial values


class DocumentScorer(nn.Module):
    """Scores a document by one vector: the product with the node's vector, and the node's bias. A
    level of any size can be scored whole, as one matrix product."""

    MAX_TOP_NODES: ClassVar[int] = 2**17  # nodes of the top level, which is always scored whole

    def __init__(self, config: LightAttentionConfig, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.project = nn.Linear(2 * config.hidden, config.value_dim)

    @staticmethod
    def node_vectors(config: LightAttentionConfig) -> list[NodeVector]:
        return [NodeVector(config.value_dim + config.bag, 0.02)]

    def forward(self, encoded: EncodedBatch, nodes: Tensor) -> Tensor:
        """Return (n, c): the logits of each document's own nodes (n, c)."""
        rows = self.table(nodes)  # (n, c, v + w + 1)
        z = self.embed_document(encoded)  # (n, v + w)
        return torch.bmm(rows[..., :-1], z[:, :, None])[..., 0] + rows[..., -1]

    def score_all(self, encoded: EncodedBatch) -> Tensor:
        """Return (n, l): the logits of all nodes of the level."""
        assert isinstance(self.table, nn.Embedding)
        rows = self.table.weight  # (l, v + w + 1)
        return self.embed_document(encoded) @ rows[:, :-1].T + rows[:, -1]

    def embed_document(self, encoded: EncodedBatch) -> Tensor:
        z = F.relu(self.project(encoded.pooled))  # (n, v)
        return torch.cat([z, encoded.bag], dim=-1)  # (n, v + w)


class AttentionScorer(nn.Module):
    """Scores a document by label attention (LightAttention, Eq. 2), fully connected layers shared
    by all nodes, and an output vector and a bias of each node (section III-D)."""

    MAX_TOP_NODES: ClassVar[int] = 2**12

    def __init__(self, config: LightAttentionConfig, table: nn.Module, layers: int = 1) -> None:
        super().__init__()
        self.widths = [*(vector.width for vector in self.node_vectors(config)), 1]
        self.table = table
        # The first layer is applied to tokens before attention, whose weights sum to one.
        self.project = nn.Linear(2 * config.hidden, config.value_dim)
        self.deeper = nn.ModuleList(
            nn.Linear(config.value_dim, config.value_dim) for _ in range(layers - 1)
        )

    @staticmethod
    def node_vectors(config: LightAttentionConfig) -> list[NodeVector]:
        """Return the attention query and the output vectors of the text and of the bag."""
        return [
            NodeVector(2 * config.hidden, 0.02),
            NodeVector(config.value_dim, 0.05),
            NodeVector(config.bag, 0.02),
        ]

    def forward(self, encoded: EncodedBatch, nodes: Tensor) -> Tensor:
        """Return (n, c): the logits of each document's own nodes (n, c)."""
        query, output, bag_output, bias = self.table(nodes).split(self.widths, dim=-1)
        h, values = encoded.h, project_tokens(self.project, encoded.h)  # (n, t, 2d), (n, t, v)
        # In the precision of h: autocast would widen the (n, c, t) scores for the softmax.
        with torch.autocast(h.device.type, enabled=False):
            m = attend_candidates(h, values, query.to(h.dtype), encoded.mask)  # (n, c, v)
        bag_logits = torch.bmm(bag_output, encoded.bag[:, :, None])[..., 0]  # (n, c)
        return self.read_out(m, output) + bag_logits + bias[..., 0]

    def score_all(self, encoded: EncodedBatch) -> Tensor:
        """Return (n, l): the logits of all nodes of the level."""
        assert isinstance(self.table, nn.Embedding)
        query, output, bag_output, bias = self.table.weight.split(self.widths, dim=-1)
        values = project_tokens(self.project, encoded.h)  # (n, t, v)
        m = attend(encoded.h, values, query, encoded.mask)  # (n, l, v)
        return self.read_out(m, output) + encoded.bag @ bag_output.T + bias[:, 0]

    def read_out(self, m: Tensor, output: Tensor) -> Tensor:
        """Return the logits of the vectors m (..., v) that nodes read, by their output vectors."""
        m = F.relu(m)
        for layer in self.deeper:
            m = F.relu(layer(m))
        wide = torch.promote_types(m.dtype, torch.float32)
        return (m * output.to(m.dtype)).sum(-1, dtype=wide)

    def explain_logit(self, encoded: EncodedBatch, node: int) -> tuple[Tensor, Tensor]:
        """Return (n, t), the contribution of each token to the logit of a node through attention,
        and (w,), the node's output vector of the bag of words."""
        row = self.table(torch.tensor([node], device=encoded.h.device))[0].to(encoded.h.dtype)
        query, output, bag_output, _ = row.split(self.widths)
        values = self.project(encoded.h)
        added = explain_logit(
            encoded.h, values, query, encoded.mask, lambda m: self.read_out(m, output)
        )
        return added, bag_output


Scorer = DocumentScorer | AttentionScorer

GENERATORS: dict[str, type[DocumentScorer] | type[AttentionScorer]] = {
    "document": DocumentScorer,
    "attention": AttentionScorer,
}


def list_node_vectors(config: LightAttentionConfig, height: int) -> list[list[NodeVector]]:
    """Return, for each level below the root, the vectors that its nodes own besides a bias."""
    generator = GENERATORS[config.generator].node_vectors(config)
    return [generator] * height + [AttentionScorer.node_vectors(config)]
