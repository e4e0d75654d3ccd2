"""Keyword phrases for corpora without keywords of their authors.

A candidate is a maximal run of content words: without punctuation but hyphens, line ends, stop
words and numbers. With n(p) the number of times that phrase p occurs in the text,

    score(p) = n(p) · sum over its words w of idf(w),   idf(w) = ln((1 + n) / (1 + df(w))) + 1

so that frequent phrases, long ones and those of rare words come first. Phrases with equal scores
are in the order of the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.errors import DataError
from ontodex.features.cache import (
    Parts,
    Recipe,
    load_or_compute,
    pick_settings,
    read_words,
    write_words,
)
from ontodex.features.languages import STOP_WORDS
from ontodex.features.tfidf import count_documents
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import Tokens, from_parts, to_parts, tokenise_corpus, tokenise_texts
from ontodex.types import Corpus

VERSION = 1
_WORDS = TokenConfig()
_WORDS_AND_MARKS = TokenConfig(punctuation=True)


@dataclass(frozen=True)
class PhraseConfig:
    """Settings of the extraction of phrases."""

    phrase_language: str = "en"  # language of the stop words that end a phrase
    phrase_words: int = 4  # words of a phrase; a longer run is cut
    phrases_per_doc: int = 10  # most phrases of a document

    def __post_init__(self) -> None:
        if self.phrase_language not in STOP_WORDS:
            known = ", ".join(STOP_WORDS)
            raise ValueError(f"phrase_language is one of {known}, not {self.phrase_language!r}")
        if self.phrase_words < 1 or self.phrases_per_doc < 1:
            raise ValueError("phrase_words and phrases_per_doc must be at least 1")


@dataclass(frozen=True, eq=False)
class Phrases:
    """Document frequencies of the training corpus's words, and phrases scored by them."""

    config: PhraseConfig
    n_docs: int
    frequency: dict[str, int] = field(repr=False)  # words of one document only are left out
    train_key: str  # the training corpus's content, by which extracted phrases are cached

    @classmethod
    def fit(cls, train: Corpus, config: PhraseConfig) -> Phrases:
        """Count the training documents of each word."""
        parts = load_or_compute(train, frequency_recipe(), lambda: count_frequencies(train))
        counts = parts.arrays["df"].tolist()
        frequency = dict(zip(parts.lists["words"], counts, strict=True))
        return cls(config, len(train), frequency, train.key)

    def extract(self, text: str) -> list[str]:
        """Return the best phrases of a text, in lower case, best first."""
        return next(iter(self._extract_all([text])))

    def extract_corpus(self, corpus: Corpus) -> Tokens:
        """Return the phrases of each document of a corpus, as `Tokens` whose words are phrases."""
        return from_parts(
            load_or_compute(
                corpus,
                self.recipe(),
                lambda: to_parts(Tokens.of(self._extract_all(corpus.texts()))),
            )
        )

    def recipe(self) -> Recipe:
        """Return the cache key of extracted phrases besides the text."""
        return {
            "phrases": VERSION,
            "train": self.train_key,
            **pick_settings(PhraseConfig, self.config),
        }

    def _extract_all(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """Return the best phrases of each text."""
        # A line end separates as a full stop does: titles seldom have one.
        tokens = tokenise_texts((text.replace("\n", ".") for text in texts), _WORDS_AND_MARKS)
        stops = STOP_WORDS[self.config.phrase_language]
        is_content = np.array([_is_content(word, stops) for word in tokens.words], dtype=bool)
        is_joint = np.array([word == "-" for word in tokens.words], dtype=bool)
        idf = [self._idf(word) for word in tokens.words]
        for start, end in pairwise(tokens.offsets.tolist()):
            ids = tokens.ids[start:end]
            ids = ids[~is_joint[ids]]
            counts = Counter(_runs(ids, is_content[ids], self.config.phrase_words))
            scores = {run: n * sum(idf[i] for i in run) for run, n in counts.items()}
            best = sorted(scores, key=scores.__getitem__, reverse=True)  # stable: text order
            kept = best[: self.config.phrases_per_doc]
            yield [" ".join(tokens.words[i] for i in run) for run in kept]

    def _idf(self, word: str) -> float:
        return log((1 + self.n_docs) / (1 + self.frequency.get(word, 1))) + 1

    def save(self, path: Path) -> None:
        """Write a text file: the key of the training corpus, then a word and its df per line."""
        head = f"{self.train_key}\t{self.n_docs}"
        write_words(path, (head, *(f"{word}\t{n}" for word, n in self.frequency.items())))

    @classmethod
    def load(cls, path: Path, config: PhraseConfig) -> Phrases:
        """Read back what `save` wrote."""
        try:
            rows = [line.rsplit("\t", 1) for line in read_words(path)]
            (key, n_docs), *words = [(name, int(number)) for name, number in rows]
        except (OSError, ValueError) as error:
            raise DataError(f"not a list of word frequencies ({error})", path=path) from error
        return cls(config, n_docs, dict(words), key)


def has_keywords(corpus: Corpus) -> bool:
    """Tell whether most documents have keywords of their authors."""
    return sum(map(bool, corpus.keywords())) > len(corpus) / 2


def frequency_recipe() -> Recipe:
    """Return the cache key of document frequencies."""
    return {"document frequency": VERSION}


def count_frequencies(train: Corpus) -> Parts:
    """Return the words of at least two documents, with their document frequencies."""
    tokens = tokenise_corpus(train, _WORDS)
    df = count_documents(tokens)
    kept = np.flatnonzero(df > 1)
    return Parts({"df": df[kept]}, {"words": tuple(tokens.words[i] for i in kept)})


def _is_content(word: str, stops: frozenset[str]) -> bool:
    """Tell whether a token is a content word: no mark, stop word or number."""
    return word[0].isalnum() and word not in stops and not word.isnumeric()


def _runs(
    ids: NDArray[Any], is_content: NDArray[np.bool_], n_words: int
) -> Iterator[tuple[int, ...]]:
    """Return the maximal runs of content words, the long ones in pieces."""
    edges = np.flatnonzero(np.diff(is_content, prepend=False, append=False)).tolist()
    words = ids.tolist()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        for place in range(start, end, n_words):
            yield tuple(words[place : min(place + n_words, end)])
