"""The word and keyword streams of a corpus (Deep Level-wise XMLC, section 2.1.1).

    documents ─ words ────── ids (n,t)
             └─ keywords ─── ids (n,t)   each keyword is one unit

Keywords are those of the authors where most training documents have some, else phrases extracted
from the text. In a corpus of sparse features each feature is a word.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from ontodex.errors import ConfigError, RunError
from ontodex.features import vectors
from ontodex.features.cache import read_words, write_words
from ontodex.features.matrix import check_kind
from ontodex.features.phrases import KnownPhrases, Phrases, has_keywords
from ontodex.features.token_config import check_lemmas
from ontodex.features.tokens import Tokens, tokenise_corpus
from ontodex.features.vocabulary import UNKNOWN, EncodedTexts, Vocabulary
from ontodex.models.layers.ragged import Ragged
from ontodex.models.levelwise.config import LevelsConfig
from ontodex.models.levelwise.network import Stream, Tables
from ontodex.types import PADDING, Corpus, Kind, Ranking

logger = logging.getLogger(__name__)


Rows = NDArray[np.int64]  # indices of documents


@dataclass(frozen=True, eq=False)
class Streams:
    """The input of the networks for some documents; pass 1 has no `neighbours`."""

    words: Ragged
    keywords: Ragged | None = None
    neighbours: Sequence[Ragged] | None = None  # for each level, the labels predicted there

    def pad_sets(self, rows: Rows) -> dict[str | int, Stream]:
        """Return the padded keywords, and by the index of a level the labels predicted there."""
        found: dict[str | int, Ragged] = dict(enumerate(self.neighbours or ()))
        if self.keywords is not None:
            found["keywords"] = self.keywords
        return {name: ragged.pad(rows) for name, ragged in found.items()}


def make_neighbour_streams(
    predicted: Sequence[Ranking], most: int, device: torch.device
) -> list[Ragged]:
    """Return, for each level, its `most` best predicted labels as rows of the label table."""
    return [Ragged(encode_labels(ranking.cut(most)), device) for ranking in predicted]


def encode_labels(ranking: Ranking) -> EncodedTexts:
    """Encode column j as id j + 1; a document without a label has an empty row."""
    is_label = ranking.columns != PADDING
    offsets = np.concatenate([[0], np.cumsum(is_label.sum(axis=1))]).astype(np.int64)
    return EncodedTexts(ranking.columns[is_label] + 1, offsets)


@dataclass(frozen=True, eq=False)
class StreamEncoder:
    """Encodes documents as streams of ids."""

    config: LevelsConfig
    words: Vocabulary
    kind: Kind
    keywords: Vocabulary | None = None  # None: no keyword stream
    phrases: Phrases | None = None  # None: the keywords are those of the authors

    @classmethod
    def fit(cls, train: Corpus, config: LevelsConfig) -> Self:
        """Build the vocabularies from the training documents."""
        words = Vocabulary.fit(
            tokenise_words(train, config),
            min_count=config.min_count,
            max_size=config.max_words,
            max_length=config.max_length,
        )
        if not config.reads_keywords:
            return cls(config, words, train.kind)
        authors = train.kind != "text" or has_keywords(train)
        phrases = None if authors else find_phrases(train, config)
        tokens = tokenise_keywords(train, phrases)
        # In a corpus of a few documents no keyword would be frequent enough.
        least = min(config.min_count, int(tokens.count_words().max(initial=1)))
        keywords = Vocabulary.fit(tokens, min_count=least, max_size=config.max_words)
        if config.knows_all_keywords:
            report_known(keywords.encode(tokens), "author keywords" if authors else "phrases")
        return cls(config, words, train.kind, keywords, phrases)

    def encode(self, corpus: Corpus, device: torch.device) -> Streams:
        """Return the words and keywords of a corpus on the device."""
        if len(corpus):
            check_kind(corpus.kind, self.kind)
        tokens = tokenise_words(corpus, self.config)
        words = Ragged(self.words.encode(tokens, self.config.max_length), device)
        if self.keywords is None:
            return Streams(words)
        found = tokenise_keywords(corpus, self.phrases)
        return Streams(words, Ragged(self._encode_keywords(found), device))

    def _encode_keywords(self, found: Tokens) -> EncodedTexts:
        """Return the ids of keywords, the first of each document."""
        assert self.keywords is not None
        if not self.config.knows_all_keywords:
            return self.keywords.encode(found, self.config.phrases_per_doc)
        encoded = self.keywords.encode(found)
        return drop_unknown(encoded, self.config.phrases_per_doc)

    def lacks_keywords(self, corpus: Corpus) -> bool:
        """Return whether training used author keywords and no document here has a known one."""
        if self.phrases is not None or self.keywords is None or not len(corpus):
            return False
        known = self.keywords.id_of
        found = (word.lower() in known for words in corpus.keywords() for word in words)
        return bool(known) and not any(found)

    def make_tables(self, n_labels: int) -> Tables:
        """Return the sizes of the vector tables, without vectors."""
        return Tables(len(self.words), 0 if self.keywords is None else len(self.keywords), n_labels)

    def load_prepared_tables(self, train: Corpus, labels: Sequence[str]) -> Tables:
        """Return the vector tables with the vectors prepared beside the training corpus, if any."""
        empty = self.make_tables(len(labels))
        label_vectors = self._load_vectors(train, Vocabulary(("", "", *labels)), vectors.LABELS)
        return Tables(
            empty.n_words,
            empty.n_keywords,
            empty.n_labels,
            self._load_vectors(train, self.words, vectors.PREPARED),
            self._load_vectors(train, self.keywords, vectors.KEYWORDS),
            # Row 0 is padding and row 1 unknown; labels have no unknown one.
            None if label_vectors is None else torch.cat([label_vectors[:1], label_vectors[2:]]),
        )

    def _load_vectors(
        self, train: Corpus, vocabulary: Vocabulary | None, kind: str
    ) -> torch.Tensor | None:
        if vocabulary is None:
            return None
        array = vectors.load_prepared(train, vocabulary, seed=self.config.train.seed, kind=kind)
        if array is not None and array.shape[1] > self.config.width:
            raise ConfigError(
                f"the prepared {kind} have {array.shape[1]} dimensions, more than [model] width = "
                f"{self.config.width}",
                hint=f"--set model.width={array.shape[1]}",
            )
        return None if array is None else torch.from_numpy(array)

    def save(self, folder: Path) -> None:
        """Write the vocabularies."""
        self.words.save(folder / "words.txt")
        if self.keywords is not None:
            self.keywords.save(folder / "keywords.txt")
        if self.phrases is not None:
            self.phrases.save(folder / "phrases.txt")
        if isinstance(self.phrases, KnownPhrases):
            write_words(folder / "known_phrases.txt", tuple(sorted(self.phrases.known)))

    @staticmethod
    def has_author_keywords(folder: Path) -> bool:
        """Return whether the keywords that `save` wrote are those of the authors."""
        return (folder / "keywords.txt").exists() and not (folder / "phrases.txt").exists()

    @classmethod
    def load(cls, folder: Path, config: LevelsConfig, kind: Kind) -> Self:
        """Read the files that `save` wrote."""
        keywords, phrases = folder / "keywords.txt", folder / "phrases.txt"
        check_lemmas(config)
        return cls(
            config,
            Vocabulary.load(folder / "words.txt"),
            kind,
            Vocabulary.load(keywords) if keywords.exists() else None,
            load_phrases(folder, config) if phrases.exists() else None,
        )


def find_phrases(train: Corpus, config: LevelsConfig) -> Phrases:
    """Return the extraction of phrases that a system reads as keywords."""
    if config.knows_all_keywords:
        return KnownPhrases.fit_known(train, config, config.min_count)
    return Phrases.fit(train, config)


def load_phrases(folder: Path, config: LevelsConfig) -> Phrases:
    """Read back the extraction of phrases of a run."""
    base, known = Phrases.load(folder / "phrases.txt", config), folder / "known_phrases.txt"
    if not known.exists():
        return base
    words = frozenset(read_words(known))
    return KnownPhrases(config, base.n_docs, base.frequency, base.train_key, words)


def report_known(encoded: EncodedTexts, kind: str) -> None:
    """Log which share of the keywords in training have a vector of their own."""
    n_known, n_documents = int((encoded.ids != UNKNOWN).sum()), max(1, len(encoded))
    logger.info(
        "keyword stream of %s: %.1f %% known, %.1f a document; unknown ones are left out",
        kind,
        100 * n_known / max(1, len(encoded.ids)),
        n_known / n_documents,
    )


def drop_unknown(encoded: EncodedTexts, most: int) -> EncodedTexts:
    """Return the first `most` known ids of each row."""
    row = np.repeat(np.arange(len(encoded.offsets) - 1), np.diff(encoded.offsets))
    is_known = encoded.ids != UNKNOWN
    before = np.concatenate([[0], np.cumsum(is_known)])
    rank = before[:-1] - before[encoded.offsets[:-1]][row]  # among the known ones of its row
    kept = is_known & (rank < most)
    counts = np.bincount(row[kept], minlength=len(encoded.offsets) - 1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return EncodedTexts(encoded.ids[kept], offsets)


def tokenise_words(corpus: Corpus, config: LevelsConfig) -> Tokens:
    """Return the words of each document; in a sparse corpus, the numbers of its features."""
    if corpus.kind == "text":
        return tokenise_corpus(corpus, config)
    if corpus.kind == "dense":
        raise RunError("levelwise reads text or sparse features; this corpus has dense features")
    matrix = corpus.features()
    assert not isinstance(matrix, np.ndarray)
    rows = np.split(matrix.indices, matrix.indptr[1:-1])
    return Tokens.of(map(str, row.tolist()) for row in rows[: len(corpus)])


def tokenise_keywords(corpus: Corpus, phrases: Phrases | None) -> Tokens:
    """Return the extracted phrases of each document, or its author keywords in lower case."""
    if phrases is not None:
        return phrases.extract_corpus(corpus)
    return Tokens.of([word.lower() for word in words if word] for words in corpus.keywords())
