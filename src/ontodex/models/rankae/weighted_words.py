"""Readers of documents as words with weights, for networks that take both text and features.

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

from ontodex.features.cache import pick_settings
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import Tokens, find_doc_spans
from ontodex.features.vocabulary import EncodedTexts, Vocabulary
from ontodex.models.baselines.sparse_rows import to_csr
from ontodex.models.layers.ragged import Ragged
from ontodex.models.readers import WordReader
from ontodex.models.text_network import TextNetworkConfig
from ontodex.types import Corpus, Doc

FIRST_WORD = 2  # the first id that is a word: 0 is padding, 1 an unknown word


@dataclass(frozen=True)
class WeightedWordsConfig(TextNetworkConfig):
    """Settings of the words' weights; a system's settings inherit these."""

    sublinear_tf: bool = True  # TF-IDF of text: 1 + ln count instead of the count
    normalise: bool = True  # a document's weights are scaled to length 1


class WeightedRows(Ragged):
    """Documents as word ids with a weight each."""

    def __init__(self, encoded: EncodedTexts, weights: NDArray[Any], device: torch.device) -> None:
        super().__init__(encoded, device)
        padded = np.append(weights.astype(np.float32), np.float32(0))
        self._weights = torch.from_numpy(padded).to(device)

    def pad(self, rows: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Return (ids (n, t), lengths (n,), weights (n, t)) of these rows; 0 after the end."""
        positions, is_inside, lengths = self.positions(rows)
        ids = torch.where(is_inside, self._ids[positions].long(), 0)
        return ids, lengths, torch.where(is_inside, self._weights[positions], 0)


class WordPlace(NamedTuple):
    """Characters of a text, the place of their word among the document's ids, and its weight."""

    start: int
    end: int
    place: int
    weight: float


class SetReader:
    """Words with TF-IDF weights, or any features with their values."""

    def __init__(self, config: WeightedWordsConfig) -> None:
        settings = MatrixConfig(
            **pick_settings(TokenConfig, config),
            min_df=config.min_count,
            max_features=config.max_words,
            max_length=config.max_length,
            sublinear_tf=config.sublinear_tf,
            norm=config.normalise,
            normalise_sparse=config.normalise,
        )
        self.features = MatrixFeatures(settings)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The word of each id; None for features that are no words."""
        if self.features.kind != "text":
            return None
        return Vocabulary(("", "", *self.features.name_columns(range(self.features.n_features))))

    def __len__(self) -> int:
        return self.features.n_features + FIRST_WORD

    def fit(self, train: Corpus, device: torch.device) -> WeightedRows:
        return self._weigh(to_csr(self.features.fit(train)), device)

    def encode(self, corpus: Corpus, device: torch.device) -> WeightedRows:
        return self._weigh(to_csr(self.features.transform(corpus)), device)

    def _weigh(self, rows: csr_array, device: torch.device) -> WeightedRows:
        encoded = EncodedTexts(rows.indices + FIRST_WORD, rows.indptr.astype(np.int64))
        return WeightedRows(encoded, rows.data, device)

    def locate_words(self, doc: Doc) -> list[WordPlace]:
        """Return every occurrence of a known word in the text."""
        found = self.features.find_spans(doc)
        place = {column: i for i, column in enumerate(sorted({piece.column for piece in found}))}
        return [WordPlace(p.start, p.end, place[p.column], p.value) for p in found]

    def save(self, folder: Path) -> None:
        self.features.save(folder)

    def load(self, folder: Path) -> None:
        self.features = MatrixFeatures.load(folder)


class SequenceReader(WordReader):
    """Words in their order, each of weight 1: the input of the BiLSTM."""

    def encode_tokens(self, tokens: Tokens, device: torch.device) -> WeightedRows:
        encoded = self.vocabulary.encode(tokens, self.config.max_length)
        return WeightedRows(encoded, np.ones(len(encoded.ids)), device)

    def locate_words(self, doc: Doc) -> list[WordPlace]:  # type: ignore[override]
        """Return the words of the text that `encode` reads."""
        spans = find_doc_spans(doc, self.config)[: self.config.max_length]
        return [WordPlace(start, end, i, 1.0) for i, (start, end, _) in enumerate(spans)]
