"""The network of `attentive-levels`: what `attentive` has, for the labels of each level.

words ┬ vectors ─ BiLSTM of all levels ─ label attention ─ logits of a level's labels
(n,t) │ (n,t,e)        (n,t,2d)                                  (n,l)
      └ bag of words ─ logits, added
keywords, labels predicted at the levels above and below: sums of their vectors ─ logits, added
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.attentive_levels.config import AttentiveLevelsConfig
from ontodex.models.layers.bag import WordBag
from ontodex.models.layers.label_attention import LabelAttention
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import token_mask
from ontodex.models.levelwise.levels import Level
from ontodex.models.levelwise.network import LevelNetworks, Starts, Stream, Tables
from ontodex.models.levelwise.pooling import StreamFeatures


class AttendedWords(NamedTuple):
    """The encoded words of a batch of documents, as the network of a level reads them."""

    h: Tensor  # (n, t, 2d)
    lengths: Tensor  # (n,)
    bag: Tensor  # (n, size of the bag of words)

    def take(self, rows: Tensor | None) -> AttendedWords:
        """Return the same for some documents of the batch (None: all)."""
        if rows is None:
            return self
        return AttendedWords(self.h.index_select(0, rows), self.lengths[rows], self.bag[rows])


class SetBag(nn.Module):
    """Logits from the sum of the vectors of keywords or labels.

    With pooling and batch norm a network recognises its training documents by rare keywords.
    """

    def __init__(self, width: int, n_labels: int, dropout: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))
        self.drop = nn.Dropout(dropout)
        self.output = nn.Linear(width, n_labels, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        bag = x.sum(dim=1) / lengths.clamp(min=1).sqrt()[:, None]  # (n, e); padding is 0
        logits: Tensor = self.output(self.drop(F.relu(bag + self.bias)))
        return logits  # (n, l)


class AttentiveLevel(nn.Module):
    """The network of one level; `sets` names the streams beside the words."""

    def __init__(
        self, config: AttentiveLevelsConfig, level: Level, sets: Sequence[str], start: Tensor
    ) -> None:
        super().__init__()
        self.sets = tuple(sets)
        self.set_bags = nn.ModuleDict(
            {name: SetBag(config.width, len(level), config.dropout) for name in sets}
        )
        self.attend = LabelAttention(2 * config.hidden, config.value_dim, len(level))
        self.drop = nn.Dropout(config.dropout)
        self.bag = nn.Linear(config.bag, len(level), bias=False)
        nn.init.normal_(self.bag.weight, std=0.02)
        self.bias = nn.Parameter(start.clone())

    def forward(self, words: AttendedWords, sets: Mapping[str, StreamFeatures]) -> Tensor:
        logits: Tensor = self.bias  # (l,)
        for name, score_set in self.set_bags.items():
            logits = logits + score_set(*sets[name])  # (n, l)
        logits = logits + self.attend(self.drop(words.h), token_mask(words.h, words.lengths))
        return logits + self.bag(words.bag)  # (n, l)


class RecurrentEncoder(nn.Module):
    """A BiLSTM over word vectors."""

    def __init__(self, config: AttentiveLevelsConfig) -> None:
        super().__init__()
        self.encode = BiLSTM(config.width, config.hidden)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        h: Tensor = self.encode(x, lengths)
        return h  # (n, t, 2d)


class AttentiveLevels(LevelNetworks):
    """The networks of all levels, which share the bag of words and, by default, the encoder."""

    def __init__(
        self, config: AttentiveLevelsConfig, levels: Sequence[Level], tables: Tables, start: Starts
    ) -> None:
        super().__init__(config, levels, tables, start)
        self.value_dim = config.value_dim

    def add_encoders(self, config: AttentiveLevelsConfig, n_levels: int, n_words: int) -> None:
        self.bag = WordBag(n_words, config.bag, config.dropout)
        n_encoders = 1 if config.encoder == "shared" else n_levels
        self.readers = nn.ModuleList(RecurrentEncoder(config) for _ in range(n_encoders))

    def make_level(
        self, config: AttentiveLevelsConfig, level: Level, sets: Sequence[str], start: Tensor
    ) -> AttentiveLevel:
        return AttentiveLevel(config, level, sets, start)

    def encode_words(self, index: int, words: Stream) -> AttendedWords:
        ids, lengths = words
        encode = self.readers[index % len(self.readers)]
        return AttendedWords(encode(self.embed("words", ids), lengths), lengths, self.bag(ids))

    def encode_words_together(self, words: Stream) -> list[AttendedWords]:
        """Return the words encoded once where all levels share an encoder."""
        if len(self.readers) == 1:
            return [self.encode_words(0, words)] * len(self.levels)
        return []

    def explain_logit(
        self, index: int, label: int, words: Stream, sets: Mapping[str | int, Stream]
    ) -> Tensor:
        """Return (n, t): what each word adds to a label's logit, by attention and by the bag."""
        level = self.level(index)
        with torch.no_grad():
            encoded = self.encode_words(index, words)
            mask = token_mask(encoded.h, encoded.lengths)
            added: Tensor = level.attend.explain_logit(encoded.h, mask, label)
            return added + self.bag.explain_logit(words[0], level.bag.weight[label])
