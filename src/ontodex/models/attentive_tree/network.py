"""The network of `attentive-tree`: a bag of words beside label attention, and light generators.

    tokens ┬ bag of words ────────────────────────────────────┬ a logit a label
    (n,t)  │  (n,w)                                           │     (n,c)
           ├ vectors ─ BiLSTM ┬ label attention ─ layers ─────┘
           │ (n,t,e)  (n,t,2d)│    (n,c,v)         their children are the candidates, c
           │                  ┆ max pooling ┬ a logit a cluster ─ best b ┘
           │                    (n,2d)      │     (n,l)
           └ bag of words ──────────────────┘
              (n,w)

Generators score the clusters of inner levels by one vector a document. They pass no gradient to the
encoder (┆): their task is easier than that of labels and would dominate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.attentive_tree.scorers import (
    AttendedBatch,
    BagAttentionScorer,
    DocumentScorer,
    PooledBatch,
)
from ontodex.models.layers.bag import WordBag
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask
from ontodex.models.lightattention.beam_search import score_alone
from ontodex.models.lightattention.network import EncodedDocuments, TreeNetwork
from ontodex.models.trees.label_tree import LabelTree


class AttentiveTreeNetwork(TreeNetwork):
    """One encoder, generators of clusters, and label attention with a bag of words."""

    score_path = staticmethod(score_alone)

    def __init__(
        self,
        config: AttentiveTreeConfig,
        n_words: int,
        tree: LabelTree,
        tables: Sequence[nn.Module],
        vectors: Tensor | None,
    ) -> None:
        words = WordEmbedding(n_words, config.width, config.word_dropout, vectors)
        super().__init__(words, BiLSTM(config.width, config.hidden), tree)
        self.beams = compute_beams(config, tree)
        self.drop = nn.Dropout(config.dropout)
        self.bag = WordBag(n_words, config.bag, config.dropout)
        self.generators_bag = WordBag(n_words, config.bag, config.dropout)
        *inner, last = tables
        self.levels = nn.ModuleList(DocumentScorer(config, table) for table in inner)
        self.levels.append(BagAttentionScorer(config.hidden, config.layers, last, config.bag))

    def encode_documents(self, tokens: Tensor, lengths: Tensor) -> EncodedDocuments:
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        pooled = h.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)  # (n, 2d)
        h, pooled = self.drop(h), self.drop(pooled).detach()
        labels = AttendedBatch(h, mask, self.bag(tokens))
        return EncodedDocuments(PooledBatch(pooled, self.generators_bag(tokens)), labels)

    def explain_logit(self, tokens: Tensor, lengths: Tensor, column: int) -> Tensor:
        encoded = self.encode_documents(tokens, lengths).labels
        labels, place = cast(BagAttentionScorer, self.levels[-1]), self.find_place(column)
        bag_output = labels.find_vectors(place, encoded.h)[2]
        return labels.explain_logit(encoded, place) + self.bag.explain_logit(tokens, bag_output)


def compute_beams(config: AttentiveTreeConfig, tree: LabelTree) -> list[int]:
    """Return how many nodes of each inner level have their children scored."""
    levels = range(1, tree.height + 1)
    branching = [tree.count_nodes(h + 1) / tree.count_nodes(h) for h in levels]
    return [config.beam or math.ceil(config.candidates / children) for children in branching]
