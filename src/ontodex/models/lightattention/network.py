"""The network of LightAttention (Figure 1): generators down a label tree and a discriminator.

    tokens ┬ bag of words ────────────────────────────────────┬ a logit a label
    (n,t)  │  (n,w)                                           │     (n,c)
           ├ vectors ─ BiLSTM ┬ label attention ─ layers ─────┘
           │ (n,t,e)  (n,t,2d)│    (n,c,v)         their children are the candidates, c
           │                  ┆ max pooling ┬ a logit a cluster ─ best b ┘
           │                    (n,2d)      │     (n,l)
           └ bag of words ──────────────────┘
              (n,w)

Generators score the clusters of inner levels by one vector a document. The discriminator scores
labels with label attention and fully connected layers (section III-D). Generators pass no gradient
to the encoder (┆) while labels are trained: their task is easier and would dominate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.models.layers.bag import WordBag
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask
from ontodex.models.lightattention.beam_search import (
    NONE,
    PATH_SCORING,
    LevelScores,
    search_levels,
)
from ontodex.models.lightattention.config import LightAttentionConfig
from ontodex.models.lightattention.scorers import (
    GENERATORS,
    AttentionScorer,
    EncodedBatch,
    Scorer,
)
from ontodex.models.trees.label_tree import LabelTree


class EncodedDocuments(NamedTuple):
    """A batch as generators read it, and as the discriminator reads it."""

    generators: EncodedBatch
    labels: EncodedBatch


class NoBag(nn.Module):
    """No bag of words, as in the paper."""

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.zeros(len(tokens), 0, device=tokens.device)

    def explain_logit(self, tokens: Tensor, output: Tensor) -> Tensor:
        return torch.zeros(tokens.shape, device=tokens.device)


def create_bag(config: LightAttentionConfig, n_words: int) -> WordBag | NoBag:
    return WordBag(n_words, config.bag, config.dropout) if config.bag else NoBag()


class TreeNetwork(nn.Module):
    """One encoder, and a scorer for each level below the root; the last scores the labels."""

    def __init__(
        self,
        config: LightAttentionConfig,
        n_words: int,
        tree: LabelTree,
        tables: Sequence[nn.Module],
        vectors: Tensor | None,
    ) -> None:
        super().__init__()
        self.score_path = PATH_SCORING[config.path_scoring]
        branching = [
            tree.count_nodes(h + 1) / tree.count_nodes(h) for h in range(1, tree.height + 1)
        ]
        self.beams = [config.beam or math.ceil(config.candidates / few) for few in branching]
        self.train_beam_ratio = config.train_beam_ratio
        self.words = WordEmbedding(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.bag, self.generators_bag = create_bag(config, n_words), create_bag(config, n_words)
        *inner, last = tables
        generators = [GENERATORS[config.generator](config, table) for table in inner]
        self.levels = nn.ModuleList([*generators, AttentionScorer(config, last, config.layers)])
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

    def forward(self, tokens: Tensor, lengths: Tensor) -> LevelScores:
        """Return the scored candidate labels of each document."""
        *_, labels = search_levels(self, self.encode_documents(tokens, lengths))  # (n, c)
        return labels

    def encode_documents(
        self, tokens: Tensor, lengths: Tensor, *, generators_train_encoder: bool = False
    ) -> EncodedDocuments:
        """Encode a batch. Generators pass gradients to the encoder only where that is asked for,
        while no labels are trained."""
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        pooled = h.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)  # (n, 2d)
        h, pooled = self.drop(h), self.drop(pooled)
        labels = EncodedBatch(h, mask, pooled, self.bag(tokens))
        if not generators_train_encoder:
            h, pooled = h.detach(), pooled.detach()
        generators = EncodedBatch(h, mask, pooled, self.generators_bag(tokens))
        return EncodedDocuments(generators, labels)

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

    def explain_logit(self, tokens: Tensor, lengths: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        encoded = self.encode_documents(tokens, lengths).labels
        discriminator = cast(AttentionScorer, self.scorers[-1])
        place = int(self.get_buffer("place_of_column")[column])
        added, bag_output = discriminator.explain_logit(encoded, place)
        return added + self.bag.explain_logit(tokens, bag_output)
