"""The words of a system, as a plain text file, and documents as ids of those words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.errors import DataError
from ontodex.features.cache import read_words, write_words
from ontodex.features.tokens import Tokens, check_count, check_length, choose_id_type, take_rows

PAD, UNKNOWN = 0, 1  # the first two ids; no word has them


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Rows of ids: row i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.integer[Any]]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[np.integer[Any]]:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of ids of each row."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words of a system, by falling frequency and then by their characters.

    `words[0]` and `words[1]` are "": padding and unknown words.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.words[:2] != ("", "") or "" in self.words[2:]:
            raise DataError("a vocabulary holds non-empty words after two empty ones")
        if len(self.id_of) != len(self.words) - 2:
            raise DataError("a vocabulary holds a word twice")

    @classmethod
    def fit(
        cls, tokens: Tokens, *, min_count: int = 1, max_size: int = 0, max_length: int = 0
    ) -> Vocabulary:
        """Return the words with at least `min_count` occurrences in the training documents.

        Only the first `max_length` tokens of a document count (0 = all), and only the `max_size`
        most frequent words are kept where that is not 0.
        """
        check_count(tokens, min_count, "min_count")
        check_length(tokens, max_length)
        counts = tokens.count_words(max_length).tolist()
        pairs = zip(counts, tokens.words, strict=True)
        common = sorted((-count, word) for count, word in pairs if count >= min_count and word)
        kept = common[: max_size or None]
        return cls(("", "", *(word for _, word in kept)))

    def __len__(self) -> int:
        """Return the number of ids, padding and unknown included: the rows of an embedding."""
        return len(self.words)

    @cached_property
    def id_of(self) -> Mapping[str, int]:
        """The id of each word, without the two special ones."""
        return {word: i for i, word in enumerate(self.words) if i > UNKNOWN}

    def encode(self, tokens: Tokens, max_length: int = 0) -> EncodedTexts:
        """Return the first `max_length` tokens of each document (0 = all) as ids.

        A document without tokens becomes one unknown word, so that no row is empty.
        """
        check_length(tokens, max_length)
        table = self.number_words(tokens)
        ids, offsets = tokens.ids, tokens.offsets
        if max_length and int(tokens.lengths.max(initial=0)) > max_length:
            ids, offsets = take_rows(ids, offsets, None, max_length=max_length)
        ids, empty = table[ids], np.diff(offsets) == 0
        if empty.any():
            ids = np.insert(ids, offsets[:-1][empty], UNKNOWN)
        return EncodedTexts(ids, offsets + np.concatenate([[0], np.cumsum(empty)]))

    def number_words(self, tokens: Tokens) -> NDArray[np.unsignedinteger[Any]]:
        """Return the id of each word of the tokens."""
        ids = [self.id_of.get(word, UNKNOWN) for word in tokens.words]
        return np.array(ids, dtype=choose_id_type(len(self)))

    def save(self, path: Path) -> None:
        """Write a text file, one word per line; the word of line i has the id i + 1."""
        write_words(path, self.words[2:])

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read back what `save` wrote."""
        return cls(("", "", *read_words(path)))
