"""Text into tokens, once per corpus; after that only arrays of token ids are used.

A token is a run of letters, digits and their marks in any script. Each Han or Hiragana character is
a token, since those scripts put no space between words. Lower case, compatibility forms, lemmas and
stop words are computed per *distinct* word of the corpus, not per token, which makes them cheap.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ontodex.config import suggest
from ontodex.errors import ConfigError, DataError
from ontodex.features.cache import Parts, check_array, find_parts, load_or_compute
from ontodex.features.languages import STOP_WORDS, load_lemmatiser
from ontodex.features.token_config import (
    TokenConfig,
    choose_reading,
    describe_tokens,
    list_readings,
)
from ontodex.features.token_patterns import INVISIBLE, choose_pattern
from ontodex.types import Corpus, Doc

MAX_LETTERS = 64  # a longer word (encoded data, a DNA sequence) is cut to its beginning
_COUNTED_AT_ONCE = 1_000  # documents
VERSION = 1  # raised whenever the same text would give other tokens

Normaliser = Callable[[str], str]
LemmaTable = dict[str, dict[str, str]]  # by language and word; spares loading a dictionary
Ids = NDArray[np.unsignedinteger[Any]]  # 16 bits where that is enough, else 32


def _make_normaliser(config: TokenConfig, lemmas: LemmaTable | None = None) -> Normaliser:
    """Return a function from a word of the text to its token, "" where it is dropped.

    It takes lemmas from the table, and adds those that are not there.
    """
    stops = STOP_WORDS[config.stop_words] if config.stop_words else frozenset[str]()
    lemma = load_lemmatiser(config.lemmas) if config.lemmas else None
    known = {} if lemmas is None else lemmas.setdefault(config.lemmas, {})
    invisible = dict.fromkeys(map(ord, INVISIBLE))

    def normalise(raw: str) -> str:
        word = raw[:MAX_LETTERS]
        if not word.isascii():
            if len(word) == 1 and unicodedata.category(word)[0] in "CM":
                return ""  # with punctuation on: stray marks, controls, unassigned characters
            word = unicodedata.normalize("NFKC", word.translate(invisible))
            word = "".join(word.split())[:MAX_LETTERS]
        elif len(word) == 1 and not word.isprintable():
            return ""
        lowered = word.lower()
        if lowered in stops:
            return ""
        if lemma is not None:
            if word not in known:
                known[word] = lemma(word)
            word = known[word]
        return word.lower() if config.lower else word

    return normalise


def tokenise(text: str, config: TokenConfig) -> list[str]:
    """Return the tokens of a text, in order."""
    config = _choose_config(text, config)
    raws = choose_pattern(text, punctuation=config.punctuation).findall(text)
    tokens = _normalise_each(raws, config)
    return [tokens[raw] for raw in raws if tokens[raw]]


def make_tokeniser(
    config: TokenConfig, lemmas: LemmaTable | None = None
) -> Callable[[str], list[str]]:
    """Return `tokenise` for many short texts: each distinct word is normalised once.

    Lemmas are taken from the table, and added to it.
    """
    # A word is normalised once for each reading: texts of several languages have several.
    readings = list_readings(config)
    normalisers = [cache(_make_normaliser(reading, lemmas)) for reading in readings]

    def tokenise_text(text: str) -> list[str]:
        normalise = normalisers[choose_reading(text, config, readings)]
        raws = choose_pattern(text, punctuation=config.punctuation).findall(text)
        return list(filter(None, map(normalise, raws)))

    return tokenise_text


def find_spans(text: str, config: TokenConfig) -> list[tuple[int, int, str]]:
    """Return (start, end, token) with character offsets into `text`, for the same tokens."""
    config = _choose_config(text, config)
    found = [
        (*match.span(), match.group())
        for match in choose_pattern(text, punctuation=config.punctuation).finditer(text)
    ]
    tokens = _normalise_each((raw for _, _, raw in found), config)
    return [(start, end, tokens[raw]) for start, end, raw in found if tokens[raw]]


def _choose_config(text: str, config: TokenConfig) -> TokenConfig:
    """Return the settings for the language of a text."""
    readings = list_readings(config)
    return readings[choose_reading(text, config, readings)]


def _normalise_each(raws: Iterable[str], config: TokenConfig) -> dict[str, str]:
    """Return the token of each distinct word."""
    normalise = _make_normaliser(config)
    return {raw: normalise(raw) for raw in set(raws)}


def find_doc_spans(doc: Doc, config: TokenConfig) -> list[tuple[int, int, str]]:
    """Return (start, end, token) of the fields in `config.fields`, as offsets into `Doc.text`."""
    starts, start = {}, 0
    for name, text in doc.fields.items():
        starts[name] = start
        start += len(text) + 1
    names = [name for name in config.fields or doc.fields if name in doc.fields]
    if len(names) > 1:
        names = names[:1] * (config.title_weight - 1) + names
    config = _choose_config("\n".join(doc.fields[name] for name in names), config)
    return [
        (starts[name] + first, starts[name] + last, token)
        for name in names
        for first, last, token in find_spans(doc.fields[name], config)
    ]


@dataclass(frozen=True, eq=False)
class Tokens:
    """A tokenised corpus: document i is `words[j] for j in ids[offsets[i]:offsets[i + 1]]`.

    Words are numbered in order of appearance, so equal documents give equal bits. A prepared folder
    may hold less: documents cut at `max_length` tokens (0 = whole), and words with fewer than
    `min_count` occurrences in training replaced by "", which no vocabulary contains.
    """

    words: tuple[str, ...]
    ids: Ids
    offsets: NDArray[np.int64]
    min_count: int = 1
    max_length: int = 0

    def __post_init__(self) -> None:
        ends = self.offsets
        if len(ends) == 0 or ends[0] != 0 or ends[-1] != len(self.ids) or np.any(np.diff(ends) < 0):
            raise DataError("token arrays do not fit together: offsets must rise from 0 to the end")
        if len(self.ids) and int(self.ids.max()) >= len(self.words):
            raise DataError(f"a token id is past the {len(self.words):,} words")

    @classmethod
    def of(cls, rows: Iterable[Iterable[str]]) -> Tokens:
        """Return the tokens of documents that are already lists of words, phrases or labels."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        listed = [[numbers[word] for word in row] for row in rows]
        ids = np.array([i for row in listed for i in row], dtype=choose_id_type(len(numbers)))
        return cls(tuple(numbers), ids, np.cumsum([0, *map(len, listed)], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each document."""
        return np.diff(self.offsets)

    def __getitem__(self, row: int) -> list[str]:
        """Return the tokens of one document."""
        return [self.words[i] for i in self.ids[self.offsets[row] : self.offsets[row + 1]]]

    def __iter__(self) -> Iterator[list[str]]:
        """Iterate over the tokens of each document."""
        return (self[row] for row in range(len(self)))

    def take(self, rows: NDArray[np.int64]) -> Tokens:
        """Return some documents; the same bits as tokenising only them."""
        ids, offsets = take_rows(self.ids, self.offsets, rows)
        return self._renumber(ids, offsets, self.max_length)

    def cut(self, max_length: int) -> Tokens:
        """Return the first `max_length` tokens of each document; 0 is all of them."""
        check_length(self, max_length)
        if not max_length or max_length == self.max_length:
            return self
        ids, offsets = take_rows(self.ids, self.offsets, None, max_length=max_length)
        return self._renumber(ids, offsets, max_length)

    def keep_words(self, known: Container[str], min_count: int) -> Tokens:
        """Return the tokens with every word outside `known` replaced by "".

        `min_count` is the least number of occurrences of a known word in training.
        """
        words = ("", *self.words)
        table = np.array([i + 1 if word in known else 0 for i, word in enumerate(self.words)])
        ids = table.astype(choose_id_type(len(words)))[self.ids]
        wide = Tokens(words, ids, self.offsets, min_count, self.max_length)
        return wide._renumber(ids, self.offsets, self.max_length)

    def _renumber(self, ids: Ids, offsets: NDArray[np.int64], max_length: int) -> Tokens:
        """Return the tokens with words numbered in order of appearance, unused ones left out."""
        first = np.full(len(self.words), -1, dtype=np.int64)
        first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # the last write is the first place
        used = np.flatnonzero(first >= 0)
        used = used[np.argsort(first[used])]
        table = np.zeros(len(self.words), dtype=choose_id_type(len(used)))
        table[used] = np.arange(len(used))
        words = tuple(self.words[i] for i in used)
        return Tokens(words, table[ids], offsets, self.min_count, max_length)

    def count_words(self, max_length: int = 0) -> NDArray[np.int64]:
        """Count the occurrences of each word in the first `max_length` tokens of each document
        (0 = all)."""
        counts = np.zeros(len(self.words), np.int64)
        # In blocks: the ids may be mapped from a file that is larger than memory.
        for start in range(0, len(self), _COUNTED_AT_ONCE):
            offsets = self.offsets[start : start + _COUNTED_AT_ONCE + 1]
            ids = self.ids[offsets[0] : offsets[-1]]
            if max_length:
                ids, _ = take_rows(ids, offsets - offsets[0], None, max_length=max_length)
            counts += np.bincount(ids, minlength=len(counts))
        return counts


def choose_id_type(n: int) -> type[np.unsignedinteger[Any]]:
    """Return the smaller integer type for n ids from 0 on."""
    return np.uint16 if n <= 2**16 else np.uint32


def take_rows(
    ids: NDArray[Any],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64] | None,
    *,
    max_length: int = 0,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return ragged rows (all when None), each cut to `max_length` where that is not 0."""
    starts = offsets[:-1] if rows is None else offsets[:-1][rows]
    lengths = np.diff(offsets) if rows is None else np.diff(offsets)[rows]
    if max_length:
        lengths = np.minimum(lengths, max_length)
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    taken = np.empty(new[-1], dtype=ids.dtype)
    for (low, high), start in zip(pairwise(new.tolist()), starts.tolist(), strict=True):
        taken[low:high] = ids[start : start + high - low]
    return taken, new


def check_length(tokens: Tokens, max_length: int) -> None:
    """Refuse a `max_length` above that of the prepared folder."""
    if tokens.max_length and not 0 < max_length <= tokens.max_length:
        wanted = f"the first {max_length:,} tokens" if max_length else "whole documents"
        raise DataError(
            f"the settings need {wanted}, but this corpus was prepared with the first "
            f"{tokens.max_length:,} tokens of each document",
            hint=f"set max_length to at most {tokens.max_length}, or prepare the corpus again",
        )


def check_count(tokens: Tokens, min_count: int, setting: str) -> None:
    """Refuse a `min_count` below that of the prepared folder, which has no rarer words."""
    if min_count < tokens.min_count:
        raise DataError(
            f"{setting} = {min_count}, but this corpus was prepared without words of fewer than "
            f"{tokens.min_count} occurrences",
            hint=f"set {setting} to at least {tokens.min_count}, or prepare the corpus again",
        )


def tokens_recipe(config: TokenConfig) -> dict[str, Any]:
    """Return the settings that shape the tokens: their cache key besides the text."""
    readings = list_readings(config)
    settings = describe_tokens(config if len(readings) > 1 else readings[0])
    if not settings["languages"]:  # folders that were prepared by version 0.1 have no such setting
        del settings["languages"]
    if settings["title_weight"] == 1:  # nor this one
        del settings["title_weight"]
    return {"tokens": VERSION, **settings}


def tokenise_corpus(corpus: Corpus, config: TokenConfig) -> Tokens:
    """Return the corpus as token ids, from the cache beside it where it has them."""
    recipe = tokens_recipe(config)
    if corpus.rows is not None:
        whole = find_parts(corpus.whole, recipe, partial(check_tokens, n_docs=len(corpus.whole)))
        if whole is not None:
            return from_parts(whole).take(corpus.rows)

    def tokenise_all() -> Parts:
        texts = corpus.texts(config.fields, title_weight=config.title_weight)
        return to_parts(tokenise_texts(texts, config))

    check = partial(check_tokens, n_docs=len(corpus))
    return from_parts(load_or_compute(corpus, recipe, tokenise_all, check))


def to_parts(tokens: Tokens) -> Parts:
    """Return the tokens as plain arrays and a list of words."""
    limits = np.array([tokens.min_count, tokens.max_length])
    arrays = {"ids": tokens.ids, "offsets": tokens.offsets, "limits": limits}
    return Parts(arrays, {"words": tokens.words})


def from_parts(parts: Parts) -> Tokens:
    """Return the tokens that `to_parts` described."""
    arrays = parts.arrays
    min_count, max_length = map(int, arrays["limits"])
    return Tokens(parts.lists["words"], arrays["ids"], arrays["offsets"], min_count, max_length)


def check_tokens(parts: Parts, n_docs: int) -> None:
    """Raise a DataError for parts that are not the tokens of so many documents."""
    check_array(parts, "ids", "u", (None,))
    check_array(parts, "offsets", "i", (n_docs + 1,))
    check_array(parts, "limits", "i", (2,))
    if parts.arrays["limits"].min() < 0:
        raise DataError("prepared features: the limits of the tokens are negative")
    from_parts(parts)


# An ASCII character that is no letter or digit always ends a word. Arrow splits there, fast and
# without Python objects; only the distinct chunks pass the regular expression.
_GROUP = 2**23  # characters split at a time
_BLOCK = 2**20  # chunks looked up at a time
_CONTROLS_TO_SPACES = bytes(32 if i < 0x21 or i == 0x7F else i for i in range(256))
_ALL_TO_SPACES = bytes(32 if i < 0x80 and not chr(i).isalnum() else i for i in range(256))
_MARKS = [bytes([point]) for point in range(0x21, 0x7F) if not chr(point).isalnum()]


def tokenise_texts(texts: Iterable[str], config: TokenConfig) -> Tokens:
    """Return the tokens of many texts, several times faster than `tokenise`."""
    readings = list_readings(config)
    numbers: dict[tuple[int, str], int] = {}  # by reading and chunk, in order of appearance
    chunks, lengths = [np.empty(0, np.uint32)], [np.zeros(1, np.int64)]
    for group in _groups(texts):
        spaced = pa.array([_insert_spaces(text, config.punctuation) for text in group], pa.string())
        lists = pc.ascii_split_whitespace(spaced)
        n_chunks = lists.value_lengths().to_numpy()
        found = lists.flatten().dictionary_encode()
        distinct, places = found.dictionary.to_pylist(), found.indices.to_numpy()
        pairs = [(0, chunk) for chunk in distinct]
        if len(readings) > 1:
            own = [choose_reading(text, config, readings) for text in group]
            codes = np.repeat(np.array(own, np.int64), n_chunks) * len(distinct) + places
            found = pa.array(codes).dictionary_encode()
            places = found.indices.to_numpy()
            pairs = [
                (code // len(distinct), distinct[code % len(distinct)])
                for code in found.dictionary.to_pylist()
            ]
        table = np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], np.uint32)
        chunks.append(table[places])
        lengths.append(n_chunks)
    offsets = np.cumsum(np.concatenate(lengths), dtype=np.int64)
    return _expand_chunks(numbers, np.concatenate(chunks), offsets, readings)


def _groups(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cut the texts into lists of about _GROUP characters."""
    group: list[str] = []
    size = 0
    for text in texts:
        group.append(text)
        size += len(text)
        if size > _GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def _insert_spaces(text: str, punctuation: bool) -> bytes:
    """Return the text in UTF-8 with spaces around ASCII punctuation marks, or in place of them."""
    raw = text.encode(errors="replace")  # a lone surrogate becomes a mark
    if not punctuation:
        return raw.translate(_ALL_TO_SPACES)
    raw = raw.translate(_CONTROLS_TO_SPACES)
    for mark in _MARKS:
        if mark in raw:
            raw = raw.replace(mark, b" " + mark + b" ")
    return raw


def _expand_chunks(
    numbers: Iterable[tuple[int, str]],
    chunks: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    readings: Sequence[TokenConfig],
) -> Tokens:
    """Return the tokens of chunks, by one table over the distinct chunks.

    A chunk may hold several tokens, or none.
    """
    normalisers = [_make_normaliser(reading) for reading in readings]
    words: dict[str, int] = {}
    pieces = [
        [
            words.setdefault(token, len(words))
            for token in map(
                normalisers[i],
                choose_pattern(chunk, punctuation=readings[i].punctuation).findall(chunk),
            )
            if token
        ]
        for i, chunk in numbers
    ]
    counts = np.array([len(piece) for piece in pieces], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    flat = np.array([i for piece in pieces for i in piece], dtype=choose_id_type(len(words)))
    ids, ends = [np.empty(0, flat.dtype)], [np.zeros(1, np.int64)]
    for low in range(0, len(chunks), _BLOCK):
        block = chunks[low : low + _BLOCK]
        n = counts[block]
        after = np.cumsum(n)
        ids.append(flat[np.repeat(starts[block] - after + n, n) + np.arange(n.sum())])
        ends.append(ends[-1][-1] + after)
    return Tokens(tuple(words), np.concatenate(ids), np.concatenate(ends)[offsets])


def check_fields(corpus: Corpus, config: TokenConfig) -> None:
    """Refuse, before training, field names that no document has."""
    if not config.fields or not corpus.has_text or not len(corpus):
        return
    seen: set[str] = set()
    for doc in corpus:
        seen.update(doc.fields)
        if seen & set(config.fields):
            return
    wrong = config.fields[0]
    raise ConfigError(f"no document has the text field {wrong!r}{suggest(wrong, sorted(seen))}")
