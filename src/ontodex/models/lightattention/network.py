"""The network of LightAttention (Figure 1): generators down a label tree and a discriminator.

    tokens ─ vectors ─ BiLSTM ┬ label attention ─ three layers ─ a logit a label
    (n,t)    (n,t,e)  (n,t,2d)│    (n,c,v)                           (n,c)
                              └ label attention ─ a layer ─ a logit a cluster ─ best b
                                   (n,l,v)                      (n,l)

Generators score the clusters of inner levels; the children of the best b are the candidates of the
next level. The discriminator scores labels (section III-D). All levels share words and BiLSTM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask
from ontodex.models.lightattention.beam_search import (
    NONE,
    LevelScores,
    score_product,
    search_levels,
)
from ontodex.models.lightattention.config import LightAttentionConfig
from ontodex.models.lightattention.scorers import (
    AttentionScorer,
    EncodedBatch,
    NodeVector,
    Scorer,
)
from ontodex.models.trees.label_tree import LabelTree


class EncodedDocuments(NamedTuple):
    """A batch as the scorers of inner levels read it, and as those of labels read it."""

    generators: Any
    labels: Any


class TreeNetwork(nn.Module):
    """One encoder, and a scorer for each level below the root; the last scores the labels.

    A subclass defines these attributes:

    score_path        turns the logit of a node and those above it into probabilities
    beams             nodes of each inner level whose children are scored
    levels            the scorers
    encode_documents  encodes a batch as the reader pads it
    explain_logit     contribution of each token to the logit of a label: (n, t) for each stream
    """

    score_path: Callable[..., tuple[Tensor, Tensor]]
    beams: Sequence[int]
    levels: nn.ModuleList
    encode_documents: Callable[..., EncodedDocuments]
    explain_logit: Callable[..., tuple[Tensor, ...]]

    def __init__(self, tree: LabelTree, **encoder: nn.Module) -> None:
        super().__init__()
        for name, part in encoder.items():
            self.add_module(name, part)
        self.n_top = tree.count_nodes(1)
        self.max_children = [int(np.diff(first).max()) for first in tree.first]
        self._keep("column_of_place", tree.order)
        self._keep("place_of_column", tree.places)
        for level in range(1, tree.height + 2):
            self._keep(f"node_of_place_{level}", tree.find_nodes_of_places(level))
        for level in range(1, tree.height + 1):
            self._keep(f"first_{level}", tree.first[level])

    def _keep(self, name: str, array: NDArray[np.int64]) -> None:
        """Keep a part of the tree on the network's device; it is saved with the tree."""
        self.register_buffer(name, torch.from_numpy(array), persistent=False)

    @property
    def scorers(self) -> list[Scorer]:
        """The scorer of each level below the root."""
        return cast(list[Scorer], list(self.levels))

    def forward(self, *batch: Any) -> LevelScores:
        """Return the scored candidate labels of each document."""
        *_, labels = search_levels(self, self.encode_documents(*batch))  # (n, c)
        return labels

    def list_children(self, level: int, nodes: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (children, index `at` of their parent, whether they exist), each (n, c), of nodes
        (n, b) of a level. `at` (n, b) is the index of each node among the level's candidates."""
        first = self.get_buffer(f"first_{level}")
        known = nodes.clamp(min=0)
        steps = torch.arange(self.max_children[level], device=nodes.device)
        children = first[known][..., None] + steps  # (n, b, children)
        is_child = (children < first[known + 1][..., None]) & (at != NONE)[..., None]
        at_parent = at[..., None].expand_as(children)
        return children.where(is_child, 0).flatten(1), at_parent.flatten(1), is_child.flatten(1)

    def find_ancestors(self, places: Tensor, level: int) -> Tensor:
        """Return the nodes of a level above places of labels; NONE stays NONE."""
        nodes = self.get_buffer(f"node_of_place_{level}")[places.clamp(min=0)]
        return nodes.masked_fill(places == NONE, NONE)

    def find_place(self, column: int) -> int:
        """Return the place of a label in the tree."""
        return int(self.get_buffer("place_of_column")[column])


class LightAttentionNetwork(TreeNetwork):
    """The network of Figure 1."""

    score_path = staticmethod(score_product)
    words: WordEmbedding
    encode: BiLSTM

    def __init__(
        self,
        config: LightAttentionConfig,
        n_words: int,
        tree: LabelTree,
        tables: Sequence[nn.Module],
        vectors: Tensor | None,
    ) -> None:
        words = WordEmbedding(n_words, config.width, 0.0, vectors)
        super().__init__(tree, words=words, encode=BiLSTM(config.width, config.hidden))
        self.beams = [config.beam] * tree.height
        self.drop = nn.Dropout(config.dropout)
        self.levels = nn.ModuleList(
            AttentionScorer(2 * config.hidden, layers, table)
            for layers, table in zip(list_layers(config, tree.height), tables, strict=True)
        )

    def encode_documents(self, tokens: Tensor, lengths: Tensor) -> EncodedDocuments:
        h = self.drop(self.encode(self.words(tokens), lengths))  # (n, t, 2d)
        batch = EncodedBatch(h, token_mask(tokens, lengths))
        return EncodedDocuments(batch, batch)

    def explain_logit(self, tokens: Tensor, lengths: Tensor, column: int) -> tuple[Tensor]:
        encoded = self.encode_documents(tokens, lengths).labels
        discriminator = cast(AttentionScorer, self.levels[-1])
        return (discriminator.explain_logit(encoded, self.find_place(column)),)


def list_layers(config: LightAttentionConfig, height: int) -> list[tuple[int, ...]]:
    """Return the widths of the fully connected layers of each level: generators have one."""
    return [config.layers[:1]] * height + [config.layers]


def list_node_vectors(config: LightAttentionConfig, height: int) -> list[list[NodeVector]]:
    """Return, for each level below the root, the vectors that its nodes own besides a bias."""
    return [
        AttentionScorer.node_vectors(2 * config.hidden, layers)
        for layers in list_layers(config, height)
    ]
