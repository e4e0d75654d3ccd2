"""Keyword phrases for corpora without keywords of their authors.

A candidate is a maximal run of content words: without punctuation but hyphens, line ends, stop
words and numbers. With n(p) the number of times that phrase p occurs in the text,

    score(p) = n(p) · sum over its words w of idf(w),   idf(w) = ln((1 + n) / (1 + df(w))) + 1

so that frequent phrases, long ones and those of rare words come first. Phrases with equal scores
are in the order of the text.

`Phrases` cuts a run that is too long into pieces. `KnownPhrases` divides every run into the longest
phrases that occur often enough in training, and leaves out the rest, so that all its phrases are
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.config import check_least
from ontodex.errors import DataError
from ontodex.features.cache import (
    Parts,
    Recipe,
    check_array,
    load_or_compute,
    pick_settings,
    read_words,
    write_words,
)
from ontodex.features.languages import STOP_WORDS
from ontodex.features.tfidf import count_documents
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import (
    Tokens,
    check_tokens,
    from_parts,
    to_parts,
    tokenise_corpus,
    tokenise_texts,
)
from ontodex.types import Corpus

VERSION = 1
ROUNDS = 2  # in which known phrases are chosen
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
        check_least(self, 1, "phrase_words", "phrases_per_doc")


def choose_phrase_language(config: TokenConfig) -> str:
    """Return the language whose stop words end a phrase: that of the stop words that are left out,
    or of the documents."""
    choices = (config.stop_words, *config.languages, "en")
    return next(language for language in choices if language in STOP_WORDS)


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
        parts = load_or_compute(
            train, frequency_recipe(), lambda: count_frequencies(train), check_frequencies
        )
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
                partial(check_tokens, n_docs=len(corpus)),
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
            counts = Counter(self._divide_runs(ids, is_content[ids], tokens.words))
            scores = {run: n * sum(idf[i] for i in run) for run, n in counts.items()}
            best = sorted(scores, key=scores.__getitem__, reverse=True)  # stable: text order
            kept = best[: self.config.phrases_per_doc]
            yield [" ".join(tokens.words[i] for i in run) for run in kept]

    def _divide_runs(
        self, ids: NDArray[Any], is_content: NDArray[np.bool_], words: Sequence[str]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the maximal runs of content words, the long ones in pieces."""
        for run in _find_runs(ids, is_content):
            for place in range(0, len(run), self.config.phrase_words):
                yield run[place : place + self.config.phrase_words]

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
        except ValueError as error:
            raise DataError(f"not a list of word frequencies ({error})", path=path) from error
        if not 0 <= n_docs < 2**53 or not all(0 <= n <= n_docs for _, n in words):
            raise DataError("a frequency is not within the number of documents", path=path)
        return cls(config, n_docs, dict(words), key)


@dataclass(frozen=True, eq=False)
class KnownPhrases(Phrases):
    """Phrases of two words or more that occur often enough in training, and whole runs of one."""

    known: frozenset[str] = frozenset()

    @classmethod
    def fit_known(cls, train: Corpus, config: PhraseConfig, least: int) -> KnownPhrases:
        """Find the phrases that at least so many training documents get."""
        base = Phrases.fit(train, config)

        def choose() -> Parts:
            known = frozenset(count_phrases(train, config, least))
            # Longer phrases and the best of a document take occurrences from the others.
            for _ in range(ROUNDS):
                trial = cls(config, base.n_docs, base.frequency, base.train_key, known)
                tokens = Tokens.of(trial._extract_all(train.texts()))
                known = frozenset(_list_frequent(tokens.ids, tokens.words, least))
            return Parts({}, {"phrases": tuple(sorted(known))})

        parts = load_or_compute(
            train, known_recipe(config, least), choose, lambda parts: parts.lists["phrases"]
        )
        known = frozenset(parts.lists["phrases"])
        return cls(config, base.n_docs, base.frequency, base.train_key, known)

    def recipe(self) -> Recipe:
        digest = sha256("\n".join(sorted(self.known)).encode()).hexdigest()[:16]
        return {**super().recipe(), "known": digest}

    def _divide_runs(
        self, ids: NDArray[Any], is_content: NDArray[np.bool_], words: Sequence[str]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the longest known phrases of each run, from left to right."""
        for run in _find_runs(ids, is_content):
            place = 0
            while place < len(run):
                longest = min(self.config.phrase_words, len(run) - place)
                shortest = 1 if len(run) == 1 else 2
                for n in range(longest, shortest - 1, -1):
                    phrase = run[place : place + n]
                    if " ".join(words[i] for i in phrase) in self.known:
                        yield phrase
                        place += n
                        break
                else:
                    place += 1


def known_recipe(config: PhraseConfig, least: int) -> Recipe:
    """Return the cache key of the known phrases."""
    return {
        "known phrases": VERSION,
        "rounds": ROUNDS,
        "least": least,
        **pick_settings(PhraseConfig, config),
    }


def count_phrases(train: Corpus, config: PhraseConfig, least: int) -> tuple[str, ...]:
    """Return the phrases inside runs of content words with at least `least` occurrences.

    A phrase of n words can only be frequent where its first n - 1 words are: so each length needs
    one look at the tokens that begin a frequent shorter phrase.
    """
    texts = (text.replace("\n", ".") for text in train.texts())
    tokens = tokenise_texts(texts, _WORDS_AND_MARKS)
    stops = STOP_WORDS[config.phrase_language]
    is_content = np.array([_is_content(word, stops) for word in tokens.words], dtype=bool)
    is_joint = np.array([word == "-" for word in tokens.words], dtype=bool)
    document = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
    kept = ~is_joint[tokens.ids] if len(tokens.ids) else np.empty(0, bool)
    ids, document = tokens.ids[kept].astype(np.int64), document[kept]
    inside = is_content[ids] if len(ids) else np.empty(0, bool)
    begins = inside & np.concatenate([[True], ~inside[:-1] | (np.diff(document) > 0)])[: len(ids)]
    run = np.cumsum(begins)  # the number of the run of each content word
    lengths = np.bincount(run[inside], minlength=len(ids) and int(run[-1]) + 1)
    found = _list_frequent(ids[inside & (lengths[run] == 1)], tokens.words, least)
    prefix, at = ids, np.flatnonzero(inside)
    for n in range(2, config.phrase_words + 1):
        at = at[at + n - 1 < len(ids)]
        at = at[inside[at + n - 1] & (run[at + n - 1] == run[at])]
        keys = prefix[at] * len(tokens.words) + ids[at + n - 1]
        _, first, number, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        frequent = np.flatnonzero(counts >= least)
        found += [
            " ".join(tokens.words[w] for w in ids[at[i] : at[i] + n]) for i in first[frequent]
        ]
        prefix = np.zeros(len(ids), np.int64)
        prefix[at] = number
        at = at[counts[number] >= least]
    return tuple(sorted(set(found)))


def _list_frequent(ids: NDArray[Any], words: Sequence[str], least: int) -> list[str]:
    counts = np.bincount(ids, minlength=len(words))
    return [words[i] for i in np.flatnonzero(counts >= least).tolist()]


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


def check_frequencies(parts: Parts) -> None:
    """Raise a DataError for parts that are not document frequencies of words."""
    check_array(parts, "df", "i", (len(parts.lists["words"]),))
    if len(parts.arrays["df"]) and parts.arrays["df"].min() < 2:
        raise DataError("prepared features: a document frequency is less than 2")


def _is_content(word: str, stops: frozenset[str]) -> bool:
    """Tell whether a token is a content word: no mark, stop word or number."""
    return word[0].isalnum() and word not in stops and not word.isnumeric()


def _find_runs(ids: NDArray[Any], is_content: NDArray[np.bool_]) -> Iterator[tuple[int, ...]]:
    """Yield the maximal runs of content words."""
    edges = np.flatnonzero(np.diff(is_content, prepend=False, append=False)).tolist()
    words = ids.tolist()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        yield tuple(words[start:end])
