"""Documents as words with a weight each, for the networks that read both text and features.

text ─ TF-IDF, a set of words        ┐
sparse or dense features, as they are ┼ ids (n, t) and weights (n, t), padded with 0
text ─ words in their order, weight 1 ┘
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.features.cache import settings_of
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.tokens import TokenConfig, check_fields, doc_spans, tokenise_corpus
from ontodex.features.vocabulary import Encoded, Vocabulary
from ontodex.models.neural import NeuralConfig, Ragged
from ontodex.models.sparse_rows import as_rows
from ontodex.types import Corpus, Doc


@dataclass(frozen=True)
class WeightedWordsConfig(NeuralConfig):
    """What the weights are made by; a system's settings inherit these."""

    sublinear_tf: bool = True  # TF-IDF of text: 1 + ln count instead of the count
    normalise: bool = True  # a document's weights are scaled to length 1


class Bags(Ragged):
    """Documents as words (ids of the vector table) with a weight each."""

    def __init__(self, encoded: Encoded, weights: NDArray[Any], device: torch.device) -> None:
        super().__init__(encoded, device)
        padded = np.append(weights.astype(np.float32), np.float32(0))
        self._weights = torch.from_numpy(padded).to(device)

    def padded(self, rows: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """(ids (n, t), lengths (n,), weights (n, t)); 0 after the end."""
        places, inside, lengths = self.places(rows)
        ids = torch.where(inside, self._ids[places].long(), 0)
        return ids, lengths, torch.where(inside, self._weights[places], 0)


class Piece(NamedTuple):
    """Characters of a text that stand for the word at a place of its bag, with this weight."""

    start: int
    end: int
    place: int
    weight: float


FIRST = 2  # of the ids that are words: 0 is padding, 1 an unknown word


class SetInput:
    """Words with TF-IDF weights, or any features with their values."""

    def __init__(self, config: WeightedWordsConfig) -> None:
        settings = MatrixConfig(
            **settings_of(TokenConfig, config),
            min_df=config.min_count,
            max_features=config.max_words,
            max_length=config.max_length,
            sublinear_tf=config.sublinear_tf,
            norm=config.normalise,
            normalise_sparse=config.normalise,
        )
        self.features = MatrixFeatures(settings)

    def fit(self, train: Corpus, device: torch.device) -> Bags:
        return self.bags(as_rows(self.features.fit(train)), device)

    def encode(self, corpus: Corpus, device: torch.device) -> Bags:
        return self.bags(as_rows(self.features.transform(corpus)), device)

    def bags(self, rows: csr_array, device: torch.device) -> Bags:
        return Bags(Encoded(rows.indices + FIRST, rows.indptr.astype(np.int64)), rows.data, device)

    def __len__(self) -> int:
        return self.features.n_features + FIRST

    def vocabulary(self) -> Vocabulary | None:
        if self.features.kind != "text":
            return None
        return Vocabulary(("", "", *self.features.terms(range(self.features.n_features))))

    def pieces(self, doc: Doc) -> list[Piece]:
        found = self.features.spans(doc)
        place = {column: i for i, column in enumerate(sorted({piece.column for piece in found}))}
        return [Piece(p.start, p.end, place[p.column], p.value) for p in found]

    def save(self, folder: Path) -> None:
        self.features.save(folder)

    def load(self, folder: Path) -> None:
        self.features = MatrixFeatures.load(folder)


class SequenceInput:
    """Words in their order, of equal weight: what the BiLSTM reads."""

    def __init__(self, config: WeightedWordsConfig) -> None:
        self.config = config
        self.words = Vocabulary(("", ""))

    def fit(self, train: Corpus, device: torch.device) -> Bags:
        check_fields(train, self.config)
        self.words = Vocabulary.fit(
            tokenise_corpus(train, self.config),
            min_count=self.config.min_count,
            max_size=self.config.max_words,
            max_length=self.config.max_length,
        )
        return self.encode(train, device)

    def encode(self, corpus: Corpus, device: torch.device) -> Bags:
        encoded = self.words.encode(tokenise_corpus(corpus, self.config), self.config.max_length)
        return Bags(encoded, np.ones(len(encoded.ids)), device)

    def __len__(self) -> int:
        return len(self.words)

    def vocabulary(self) -> Vocabulary:
        return self.words

    def pieces(self, doc: Doc) -> list[Piece]:
        found = doc_spans(doc, self.config)[: self.config.max_length]
        return [Piece(start, end, i, 1.0) for i, (start, end, _) in enumerate(found)]

    def save(self, folder: Path) -> None:
        self.words.save(folder / "words.txt")

    def load(self, folder: Path) -> None:
        self.words = Vocabulary.load(folder / "words.txt")
