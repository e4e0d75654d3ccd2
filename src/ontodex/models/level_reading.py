"""What the networks of levelwise read of a corpus: words, and keywords that are units.

Keywords are the author's where most training documents have some, else phrases extracted from the
text. A corpus of sparse features is read as if each feature were a word.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch

from ontodex.errors import ConfigError, RunError
from ontodex.features import vectors
from ontodex.features.matrix import check_kind
from ontodex.features.phrases import Phrases, has_keywords
from ontodex.features.tokens import Tokens, tokenise_corpus
from ontodex.features.vocabulary import Vocabulary
from ontodex.models.level_network import LevelwiseConfig, Tables
from ontodex.models.level_passes import Streams
from ontodex.models.neural import Ragged
from ontodex.types import Corpus, Kind

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Reading:
    """How a corpus becomes streams of ids."""

    config: LevelwiseConfig
    words: Vocabulary
    kind: Kind
    keywords: Vocabulary | None = None  # None: this system reads none
    phrases: Phrases | None = None  # None: the author's keywords are read

    @classmethod
    def fit(cls, train: Corpus, config: LevelwiseConfig) -> Self:
        words = Vocabulary.fit(
            word_tokens(train, config),
            min_count=config.min_count,
            max_size=config.max_words,
            max_length=config.max_length,
        )
        if not config.reads_keywords:
            return cls(config, words, train.kind)
        authors = config.keywords == "author" or train.kind != "text"
        if config.keywords == "auto":
            authors = authors or has_keywords(train)
        phrases = None if authors else Phrases.fit(train, config)
        tokens = _keyword_tokens(train, phrases)
        # On a handful of documents no keyword would be frequent enough.
        least = min(config.keyword_count, int(tokens.counts().max(initial=1)))
        keywords = Vocabulary.fit(tokens, min_count=least, max_size=config.max_words)
        if authors and train.kind == "text" and not any(map(any, train.keywords())):
            logger.warning("keywords = %r, and no training document has any", config.keywords)
        return cls(config, words, train.kind, keywords, phrases)

    def streams(self, corpus: Corpus, device: torch.device) -> Streams:
        """The words and keywords of a corpus on the device."""
        if len(corpus):
            check_kind(corpus.kind, self.kind)
        tokens = word_tokens(corpus, self.config)
        words = Ragged(self.words.encode(tokens, self.config.max_length), device)
        if self.keywords is None:
            return Streams(words)
        found = _keyword_tokens(corpus, self.phrases)
        encoded = self.keywords.encode(found, self.config.phrases_per_doc)
        return Streams(words, Ragged(encoded, device))

    def misses_keywords(self, corpus: Corpus) -> bool:
        """Whether authors' keywords were learned from and no document here has one of them."""
        if self.phrases is not None or self.keywords is None or not len(corpus):
            return False
        known = self.keywords.id_of
        found = (word.lower() in known for words in corpus.keywords() for word in words)
        return bool(known) and not any(found)

    def tables(self, n_labels: int) -> Tables:
        """Vector tables of the right sizes."""
        return Tables(len(self.words), 0 if self.keywords is None else len(self.keywords), n_labels)

    def prepared_tables(self, train: Corpus, labels: Sequence[str]) -> Tables:
        """The same with the vectors that were prepared beside the training corpus, if any."""
        empty = self.tables(len(labels))
        label_vectors = self._prepared(train, Vocabulary(("", "", *labels)), vectors.LABELS)
        return Tables(
            empty.n_words,
            empty.n_keywords,
            empty.n_labels,
            self._prepared(train, self.words, vectors.PREPARED),
            self._prepared(train, self.keywords, vectors.KEYWORDS),
            # Row 0 is padding and row 1 unknown; labels have no unknown one.
            None if label_vectors is None else torch.cat([label_vectors[:1], label_vectors[2:]]),
        )

    def _prepared(
        self, train: Corpus, vocabulary: Vocabulary | None, kind: str
    ) -> torch.Tensor | None:
        if vocabulary is None:
            return None
        array = vectors.prepared(train, vocabulary, seed=self.config.train.seed, kind=kind)
        if array is not None and array.shape[1] > self.config.width:
            raise ConfigError(
                f"the prepared {kind} have {array.shape[1]} numbers, more than width = "
                f"{self.config.width}",
                hint=f"--set model.width={array.shape[1]}",
            )
        return None if array is None else torch.from_numpy(array)

    def save(self, folder: Path) -> None:
        self.words.save(folder / "words.txt")
        if self.keywords is not None:
            self.keywords.save(folder / "keywords.txt")
        if self.phrases is not None:
            self.phrases.save(folder / "phrases.txt")

    @staticmethod
    def of_authors(folder: Path) -> bool:
        """Whether the keywords that `save` wrote are authors'."""
        return (folder / "keywords.txt").exists() and not (folder / "phrases.txt").exists()

    @classmethod
    def load(cls, folder: Path, config: LevelwiseConfig, kind: Kind) -> Self:
        """What `save` wrote."""
        keywords, phrases = folder / "keywords.txt", folder / "phrases.txt"
        return cls(
            config,
            Vocabulary.load(folder / "words.txt"),
            kind,
            Vocabulary.load(keywords) if keywords.exists() else None,
            Phrases.load(phrases, config) if phrases.exists() else None,
        )


def word_tokens(corpus: Corpus, config: LevelwiseConfig) -> Tokens:
    """The words of each document; of a sparse corpus, the numbers of its features."""
    if corpus.kind == "text":
        return tokenise_corpus(corpus, config)
    if corpus.kind == "dense":
        raise RunError("this system reads text or sparse features; the corpus has dense ones")
    matrix = corpus.features()
    assert not isinstance(matrix, np.ndarray)
    rows = np.split(matrix.indices, matrix.indptr[1:-1])
    return Tokens.of(map(str, row.tolist()) for row in rows[: len(corpus)])


def _keyword_tokens(corpus: Corpus, phrases: Phrases | None) -> Tokens:
    """The extracted phrases of each document, or (None) the author's keywords, in lower case."""
    if phrases is not None:
        return phrases.of(corpus)
    return Tokens.of([word.lower() for word in words if word] for words in corpus.keywords())
