"""The network of `attentive-tree`: a bag of words beside label attention, and light generators.

    words  ─ bag of words ───────────────────────────────┐ a logit a label
    (n,w)       (n,w)                                    │     (n,c)
    tokens ─ encoder ┬ label attention ─ layers ─────────┘
    (n,t)   (n,t,d)  │    (n,c,v)          their children are the candidates, c
                     ┆ max pooling ┬ a logit a cluster ─ best b ┘
                       (n,d)       │     (n,l)
    words  ─ bag of words ─────────┘
              (n,w)

The encoder is a BiLSTM over word vectors, or a pretrained one over word pieces; nothing else here
knows which.

Generators score the clusters of inner levels by one vector a document. They pass no gradient to the
encoder (┆): their task is easier than that of labels and would dominate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ontodex.models.attentive_bert.network import encode_windows
from ontodex.models.attentive_bert.reader import Documents
from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.attentive_tree.scorers import (
    AttendedBatch,
    BagAttentionScorer,
    DocumentScorer,
    PooledBatch,
)
from ontodex.models.layers.bag import WordBag
from ontodex.models.layers.bert import Bert, BertConfig
from ontodex.models.layers.packed import Packed
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask
from ontodex.models.lightattention.beam_search import score_alone
from ontodex.models.lightattention.network import EncodedDocuments, TreeNetwork
from ontodex.models.trees.label_tree import LabelTree


class EncodedTokens(NamedTuple):
    """A batch of documents as an encoder reads it."""

    h: Tensor  # (n, t, d): a state for each token
    mask: Tensor  # (n, t): where documents have tokens
    words: Tensor  # (n, w): ids of words, for the bags


class AttentiveTreeNetwork(TreeNetwork):
    """Generators of clusters, and label attention with a bag of words, over the states of an
    encoder, which are `width` wide. A subclass has the encoder and defines `encode_tokens`."""

    score_path = staticmethod(score_alone)
    encode_tokens: Callable[..., EncodedTokens]

    def __init__(
        self,
        config: AttentiveTreeConfig,
        width: int,
        n_words: int,
        tree: LabelTree,
        tables: Sequence[nn.Module],
        **encoder: nn.Module,
    ) -> None:
        super().__init__(tree, **encoder)
        self.beams = compute_beams(config, tree)
        self.drop = nn.Dropout(config.dropout)
        self.bag = WordBag(n_words, config.bag, config.dropout)
        self.generators_bag = WordBag(n_words, config.bag, config.dropout)
        *inner, last = tables
        self.levels = nn.ModuleList(DocumentScorer(width, config, table) for table in inner)
        self.levels.append(BagAttentionScorer(width, config.layers, last, config.bag))

    def encode_documents(self, *batch: Any) -> EncodedDocuments:
        return self._divide(self.encode_tokens(*batch))

    def _divide(self, tokens: EncodedTokens) -> EncodedDocuments:
        """Return what generators read of a batch, and what labels read."""
        h, mask, words = tokens
        pooled = h.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)  # (n, d)
        h, pooled = self.drop(h), self.drop(pooled).detach()
        labels = AttendedBatch(h, mask, self.bag(words))
        return EncodedDocuments(PooledBatch(pooled, self.generators_bag(words)), labels)

    def _explain_parts(self, tokens: EncodedTokens, column: int) -> tuple[Tensor, Tensor]:
        """Return what each token (n, t) adds to the logit of a label by attention, and what each
        word (n, w) adds by the bag."""
        encoded = self._divide(tokens).labels
        labels, place = cast(BagAttentionScorer, self.levels[-1]), self.find_place(column)
        bag_output = labels.find_vectors(place, encoded.h)[2]
        by_bag = self.bag.explain_logit(tokens.words, bag_output)
        return labels.explain_logit(encoded, place), by_bag


class RecurrentTreeNetwork(AttentiveTreeNetwork):
    """Reads words by a BiLSTM."""

    words: WordEmbedding
    encode: BiLSTM

    def __init__(
        self,
        config: AttentiveTreeConfig,
        n_words: int,
        tree: LabelTree,
        tables: Sequence[nn.Module],
        vectors: Tensor | None,
    ) -> None:
        words = WordEmbedding(n_words, config.width, config.word_dropout, vectors)
        encode = BiLSTM(config.width, config.hidden)
        width = 2 * config.hidden
        super().__init__(config, width, n_words, tree, tables, words=words, encode=encode)

    def encode_tokens(self, tokens: Tensor, lengths: Tensor) -> EncodedTokens:
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        return EncodedTokens(h, token_mask(tokens, lengths), tokens)

    def explain_logit(self, tokens: Tensor, lengths: Tensor, column: int) -> tuple[Tensor]:
        by_attention, by_bag = self._explain_parts(self.encode_tokens(tokens, lengths), column)
        return (by_attention + by_bag,)


class PretrainedTreeNetwork(AttentiveTreeNetwork):
    """Reads windows of word pieces by a pretrained encoder."""

    encode: Bert

    def __init__(
        self,
        config: AttentiveTreeConfig,
        n_words: int,
        tree: LabelTree,
        tables: Sequence[nn.Module],
        shape: BertConfig,
    ) -> None:
        super().__init__(config, shape.hidden_size, n_words, tree, tables, encode=Bert(shape))

    def encode_tokens(self, windows: Packed, documents: Documents, words: Tensor) -> EncodedTokens:
        return EncodedTokens(*encode_windows(self.encode, windows, documents), words)

    def explain_logit(
        self, windows: Packed, documents: Documents, words: Tensor, column: int
    ) -> tuple[Tensor, Tensor]:
        return self._explain_parts(self.encode_tokens(windows, documents, words), column)


def compute_beams(config: AttentiveTreeConfig, tree: LabelTree) -> list[int]:
    """Return how many nodes of each inner level have their children scored."""
    levels = range(1, tree.height + 1)
    branching = [tree.count_nodes(h + 1) / tree.count_nodes(h) for h in levels]
    return [config.beam or math.ceil(config.candidates / children) for children in branching]
