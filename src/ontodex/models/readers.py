"""Readers turn documents into rows of token ids, the input of a network.

    fit(train)     learn the vocabulary and encode the training documents
    encode(corpus) encode other documents with it

`WordReader` reads words in their order. Rank-AE has readers of weighted words
(rankae/weighted_words.py), `attentive-bert` one of word pieces (attentive_bert/reader.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ontodex.errors import RunError
from ontodex.features import vectors
from ontodex.features.token_config import check_lemmas
from ontodex.features.tokens import Tokens, check_fields, find_doc_spans, tokenise_corpus
from ontodex.features.vocabulary import Vocabulary
from ontodex.models.layers.mapped_words import MappedWords, Words
from ontodex.models.layers.ragged import Ragged
from ontodex.types import Corpus, Doc
from ontodex.types.answers import Span

MOST_IN_MEMORY = 2**28  # words of a corpus whose ids (1 GiB) are kept on the device


class Encoded(Protocol):
    """Documents as a network reads them, on one device."""

    lengths: NDArray[np.int64]

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def pad(self, rows: NDArray[np.int64]) -> tuple[Any, ...]:
        """Return the arguments of the network for these documents."""
        ...


class Reader(Protocol):
    """Documents to token ids."""

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The word of each id; None where ids are no words."""
        ...

    def __len__(self) -> int:
        """Return the number of ids."""
        ...

    def fit(self, train: Corpus, device: torch.device) -> Encoded:
        """Learn the ids from training documents and return these documents as ids."""
        ...

    def encode(self, corpus: Corpus, device: torch.device) -> Encoded:
        """Return documents as ids."""
        ...

    def save(self, folder: Path) -> None:
        """Write the vocabulary into a run folder."""

    def load(self, folder: Path) -> None:
        """Read the vocabulary that `save` wrote."""


class WordReader:
    """The first words of a text in their order; `config` is a `TextNetworkConfig`."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.vocabulary = Vocabulary(("", ""))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def fit(self, train: Corpus, device: torch.device) -> Words:
        return self.fit_with_tokens(train, device)[0]

    def fit_with_tokens(self, train: Corpus, device: torch.device) -> tuple[Words, Tokens]:
        """As `fit`; return the words of the training documents too."""
        check_text(train)
        check_fields(train, self.config)
        tokens = tokenise_corpus(train, self.config)
        self.vocabulary = Vocabulary.fit(
            tokens,
            min_count=self.config.min_count,
            max_size=self.config.max_words,
            max_length=self.config.max_length,
        )
        return self.encode_tokens(tokens, device), tokens

    def encode(self, corpus: Corpus, device: torch.device) -> Words:
        check_text(corpus)
        return self.encode_tokens(tokenise_corpus(corpus, self.config), device)

    def encode_tokens(self, tokens: Tokens, device: torch.device) -> Words:
        """Return words as ids; readers of more than ids override this."""
        if len(tokens.ids) > MOST_IN_MEMORY:
            return MappedWords(tokens, self.vocabulary, self.config.max_length, device)
        return Ragged(self.vocabulary.encode(tokens, self.config.max_length), device)

    def place_weights(self, doc: Doc, weights: Sequence[float]) -> list[Span]:
        """Return the words that `encode` reads with their weights."""
        places = zip(self.locate_words(doc), weights, strict=False)
        return [Span(start, end, weight) for (start, end), weight in places]

    def locate_words(self, doc: Doc) -> list[tuple[int, int]]:
        """Return (start, end) in the text of each word that `encode` reads."""
        spans = find_doc_spans(doc, self.config)[: self.config.max_length]
        return [(start, end) for start, end, _ in spans]

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / "words.txt")

    def load(self, folder: Path) -> None:
        check_lemmas(self.config)
        self.vocabulary = Vocabulary.load(folder / "words.txt")


def check_text(corpus: Corpus) -> None:
    """Raise an error where a corpus has features instead of text."""
    if corpus.kind != "text":
        raise RunError(
            f"this system reads text; the corpus has {corpus.kind} features",
            hint="give documents with text, or use a system that reads features",
        )


def find_word_vectors(train: Corpus, vocabulary: Vocabulary | None, *, seed: int) -> Tensor | None:
    """Return the pretrained vectors beside a corpus, one row a word; None where there are none."""
    if vocabulary is None:
        return None
    found = vectors.load_prepared(train, vocabulary, seed=seed)
    return None if found is None else torch.from_numpy(found)
