"""TF-IDF of tokenised documents, with numpy and scipy only.

    value(d, t) = tf(d, t) · idf(t), each row then divided by its Euclidean length (norm)
    tf          = count of t in d, or 1 + ln count (sublinear_tf)
    idf(t)      = ln((1 + n) / (1 + df(t))) + 1,  n training documents, df(t) of them have t

The features come from the training documents: words first, then pairs of neighbouring words, each
in the order of their characters. With `compounds` the parts of a compound count as words too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from ontodex.config import check_least
from ontodex.errors import DataError
from ontodex.features.compounds import MAX_PARTS, CompoundSplitter
from ontodex.features.tokens import Tokens, check_count

_BLOCK = 2**20  # tokens counted at a time, which keeps the peak memory low
_NONE = -1

Columns = NDArray[np.int64]


@dataclass(frozen=True)
class TfidfConfig:
    """Settings of TF-IDF. A system's settings inherit these."""

    min_df: int = 2  # least number of training documents of a feature
    max_features: int = 0  # keep the most frequent ones; 0 = all
    ngrams: Literal[1, 2] = 1  # 2 adds pairs of neighbouring words
    compounds: bool = False  # count the parts of compounds too, as in German or Finnish
    sublinear_tf: bool = True  # 1 + ln count instead of the count
    norm: bool = True  # rows of length 1
    max_length: int = 0  # first tokens of a document that count; 0 = all

    def __post_init__(self) -> None:
        check_least(self, 1, "min_df")
        check_least(self, 0, "max_features", "max_length")


@dataclass(frozen=True, eq=False)
class Tfidf:
    """Terms and their idf, learned from training documents; turns tokens into matrix rows.

    The pair of neighbours a, b is the term "a b": a token never holds a space.
    """

    config: TfidfConfig
    terms: tuple[str, ...]
    idf: NDArray[np.float32]

    def __post_init__(self) -> None:
        if len(self.terms) != len(self.idf) or not np.all(np.isfinite(self.idf)):
            raise DataError(
                f"{len(self.terms):,} terms and {len(self.idf):,} idf values do not fit together"
            )
        if np.any(np.diff(self._pair_keys) <= 0) or len(self._words) != self._n_words:
            raise DataError("the terms are not in order")

    @classmethod
    def fit(cls, tokens: Tokens, config: TfidfConfig) -> Tfidf:
        """Learn from the training documents, and from nothing else."""
        check_count(tokens, config.min_df, "min_df")
        tokens = tokens.cut(config.max_length)
        # A word with too small a count has too small a df, and so has every pair it is in.
        common = (tokens.count_words() >= config.min_df) & np.array(
            [w != "" for w in tokens.words], bool
        )
        order = sorted(np.flatnonzero(common).tolist(), key=tokens.words.__getitem__)
        words = [tokens.words[i] for i in order]
        rank = np.full(len(tokens.words), _NONE, dtype=np.int64)
        rank[order] = np.arange(len(order))

        found = [_word_statistics(tokens, rank, len(words))]
        if config.ngrams == 2:
            found.append(_pair_statistics(tokens, rank, len(words)))
        keys, df, count = (np.concatenate(columns) for columns in zip(*found, strict=True))
        kept = _choose_features(df, count, config)
        names = [_name(key, words, i < len(words)) for i, key in zip(kept, keys[kept], strict=True)]
        idf = np.log((1 + len(tokens)) / (1 + df[kept])) + 1
        return cls(config, tuple(names), idf.astype(np.float32))

    def transform(self, tokens: Tokens) -> csr_array:
        """Return (documents x terms), float32, columns in order within each row."""
        tokens = tokens.cut(self.config.max_length)
        blocks = [self._rows(*block) for block in _blocks(tokens, self._tables(tokens.words))]
        empty = csr_array((0, len(self.terms)), dtype=np.float32)
        return csr_array(vstack([empty, *blocks], format="csr"))

    def find_columns(self, words: list[str]) -> NDArray[np.int64]:
        """Return (tokens, slots): the columns of each token.

        They are that of the token, with `ngrams` = 2 that of its pair with the next one, and with
        `compounds` those of its parts. -1 stands for no column.
        """
        tokens = Tokens.of([words])
        tokens = tokens.cut(self.config.max_length)
        ((offsets, *numbers),) = list(_blocks(tokens, self._tables(tokens.words)))
        return self._columns(offsets, *numbers)

    @cached_property
    def _n_words(self) -> int:
        """The number of terms that are single words; they come first."""
        if self.config.ngrams == 1:
            return len(self.terms)
        return next((i for i, term in enumerate(self.terms) if " " in term), len(self.terms))

    @cached_property
    def _words(self) -> dict[str, int]:
        """The columns of single words."""
        return {term: column for column, term in enumerate(self.terms[: self._n_words])}

    @cached_property
    def _splitter(self) -> CompoundSplitter:
        rarity = self.idf[: self._n_words].tolist()
        return CompoundSplitter(dict(zip(self._words, rarity, strict=True)))

    def _find_parts(self, word: str) -> list[int]:
        """Return the columns of the parts of a compound, filled up with -1."""
        columns = [self._words[part] for part in self._splitter.split(word)]
        return columns + [_NONE] * (MAX_PARTS - len(columns))

    @cached_property
    def _parts(self) -> dict[str, int]:
        """The words of pairs by number; they need not be features themselves."""
        parts = {word for pair in self.terms[self._n_words :] for word in pair.split(" ")}
        return {word: number for number, word in enumerate(sorted(parts))}

    @cached_property
    def _pair_keys(self) -> Columns:
        """A rising number for each pair, in the order of their columns."""
        pairs = [pair.split(" ") for pair in self.terms[self._n_words :]]
        numbers = np.array([[self._parts[a], self._parts[b]] for a, b in pairs], dtype=np.int64)
        first, second = numbers.reshape(-1, 2).T
        return first * len(self._parts) + second

    def _tables(self, words: tuple[str, ...]) -> list[Columns]:
        """Return the column of each word id, its number in a pair, the columns of its parts."""
        known = [self._words] if self.config.ngrams == 1 else [self._words, self._parts]
        tables = [np.array([d.get(word, _NONE) for word in words], np.int64) for d in known]
        if self.config.compounds:
            parts = [self._find_parts(word) for word in words]
            tables.append(np.array(parts, np.int64).reshape(-1, MAX_PARTS))
        return tables

    def _columns(self, offsets: Columns, columns: Columns, *more: Columns) -> Columns:
        """Return the columns of tokens, of their pairs, and of the parts of compounds."""
        found = [columns[:, None]]
        if self.config.ngrams == 2:
            found.append(self._find_pairs(offsets, more[0])[:, None])
        if self.config.compounds:
            found.append(more[-1])
        return np.concatenate(found, axis=1)

    def _find_pairs(self, offsets: Columns, numbers: Columns) -> Columns:
        """Return the column of the pair that each token begins."""
        keys = _pair_keys(numbers, offsets, len(self._parts))
        place = np.searchsorted(self._pair_keys, keys)
        place[place == len(self._pair_keys)] = 0
        is_pair = keys == self._pair_keys[place] if len(self._pair_keys) else False
        return np.where(is_pair, self._n_words + place, _NONE)

    def _rows(self, offsets: Columns, *numbers: Columns) -> csr_array:
        """Return the rows of some documents."""
        columns = self._columns(offsets, *numbers)
        matrix = _count_columns(columns.ravel(), offsets * columns.shape[1], len(self.terms))
        if self.config.sublinear_tf:
            matrix.data = 1 + np.log(matrix.data)
        matrix.data *= self.idf[matrix.indices]
        return normalise_rows(matrix) if self.config.norm else matrix


def count_documents(tokens: Tokens) -> NDArray[np.int64]:
    """Return the document frequency of each word."""
    n_words = len(tokens.words)
    return _word_statistics(tokens, np.arange(n_words), n_words)[1]


def normalise_rows(matrix: csr_array) -> csr_array:
    """Return the matrix with rows of Euclidean length 1; empty rows stay empty.

    Each row is computed on its own, so that it does not depend on its neighbours.
    """
    squares = csr_array(
        (matrix.data.astype(np.float64) ** 2, matrix.indices, matrix.indptr), shape=matrix.shape
    )
    lengths = np.sqrt(np.asarray(squares @ np.ones(matrix.shape[1])))
    lengths[lengths == 0] = 1
    data = (matrix.data / np.repeat(lengths, np.diff(matrix.indptr))).astype(np.float32)
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _blocks(tokens: Tokens, tables: list[Columns]) -> Iterator[tuple[Columns, ...]]:
    """Return some documents at a time: their offsets, and their token ids in each table."""
    start = 0
    while start < len(tokens):
        limit = tokens.offsets[start] + _BLOCK
        end = max(start + 1, int(np.searchsorted(tokens.offsets, limit, side="right")) - 1)
        offsets = tokens.offsets[start : end + 1]
        ids = tokens.ids[offsets[0] : offsets[-1]]
        yield (offsets - offsets[0], *(table[ids] for table in tables))
        start = end


def _count_columns(columns: Columns, offsets: Columns, width: int) -> csr_array:
    """Count the occurrences of each column in each document; -1 is no column."""
    kept = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[offsets]
    indices = columns[kept].astype(np.int32)
    ones = np.ones(len(indices), dtype=np.float32)
    matrix = csr_array((ones, indices, indptr.astype(np.int32)), shape=(len(offsets) - 1, width))
    matrix.sum_duplicates()
    return matrix


def _pair_keys(numbers: Columns, offsets: Columns, size: int) -> Columns:
    """Return number * size + number of the next token of the document; -1 where one is missing."""
    keys = np.full(len(numbers), _NONE, dtype=np.int64)
    first, second = numbers[:-1], numbers[1:]
    keys[:-1] = np.where((first >= 0) & (second >= 0), first * size + second, _NONE)
    keys[offsets[1:][np.diff(offsets) > 0] - 1] = _NONE
    return keys


Statistics = tuple[Columns, Columns, Columns]  # key, documents that have it, occurrences


def _word_statistics(tokens: Tokens, rank: Columns, size: int) -> Statistics:
    """Count the documents and the occurrences of each word."""
    df, count = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for offsets, columns in _blocks(tokens, [rank]):
        matrix = _count_columns(columns, offsets, size)
        df += np.bincount(matrix.indices, minlength=size)
        count += np.bincount(matrix.indices, matrix.data, size).astype(np.int64)
    return np.arange(size), df, count


def _pair_statistics(tokens: Tokens, rank: Columns, size: int) -> Statistics:
    """Count the documents and the occurrences of each pair of neighbouring words."""
    found: list[Statistics] = [(np.empty(0, np.int64),) * 3]
    for offsets, columns in _blocks(tokens, [rank]):
        keys = _pair_keys(columns, offsets, size)
        distinct, places = np.unique(keys, return_inverse=True)
        missing = int(np.searchsorted(distinct, 0))  # -1, when it is there, is the smallest
        matrix = _count_columns(places - missing, offsets, len(distinct) - missing)
        df = np.bincount(matrix.indices, minlength=matrix.shape[1])
        count = np.bincount(matrix.indices, matrix.data, matrix.shape[1]).astype(np.int64)
        found.append((distinct[missing:], df, count))
    keys, df, count = (np.concatenate(parts) for parts in zip(*found, strict=True))
    distinct, places = np.unique(keys, return_inverse=True)
    df_sum = np.bincount(places, df, len(distinct)).astype(np.int64)
    return distinct, df_sum, np.bincount(places, count, len(distinct)).astype(np.int64)


def _choose_features(df: Columns, count: Columns, config: TfidfConfig) -> Columns:
    """Return the features that are frequent enough, at most `max_features` of them."""
    kept = np.flatnonzero(df >= config.min_df)
    if config.max_features:
        best = np.argsort(-count[kept], kind="stable")[: config.max_features]
        kept = np.sort(kept[best])
    return kept


def _name(key: int, words: list[str], is_word: bool) -> str:
    """Return the term of a word or a pair."""
    if is_word:
        return words[key]
    first, second = divmod(int(key), len(words))
    return f"{words[first]} {words[second]}"
