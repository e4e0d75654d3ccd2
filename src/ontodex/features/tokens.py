"""Text into tokens, once per corpus; after that only arrays of token ids are touched.

A token is a run of letters, digits and their marks in any script; Han and Hiragana characters stand
alone, since those scripts put no space between words. Lower case, compatibility forms, lemmas and
stop words are decided per *distinct* word of the corpus, not per token, which makes them cheap.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ontodex.config import nearest
from ontodex.errors import ConfigError, DataError
from ontodex.features.cache import Parts, cached, find, settings_of
from ontodex.features.languages import STOP_WORDS, lemmatiser
from ontodex.types import Corpus, Doc

MAX_LETTERS = 64  # a longer word (encoded data, a DNA sequence) is known by its beginning
VERSION = 1  # raised whenever the same text would give other tokens

Ids = NDArray[np.unsignedinteger[Any]]  # 16 or 32 bits, whichever is enough


@dataclass(frozen=True)
class TokenConfig:
    """What counts as a token. A system's settings inherit these."""

    fields: tuple[str, ...] = ()  # text fields to read, in this order; none = all, as they come
    lower: bool = True  # in small letters
    numbers: bool = True  # keep tokens that are only digits
    punctuation: bool = False  # each mark is a token
    stop_words: str = ""  # drop those of a language: en, de, fr, es
    lemmas: str = ""  # put words into their dictionary form in a language (simplemma)

    def __post_init__(self) -> None:
        if self.stop_words and self.stop_words not in STOP_WORDS:
            known = ", ".join(STOP_WORDS)
            raise ValueError(f"stop_words has lists for {known}, not {self.stop_words!r}")


# ------------------------------------------------------------------------------------- one text

_ALONE = r"\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_INVISIBLE = "\u00ad\u200c\u200d\u2060"  # soft hyphen and joiners: inside a word, not part of it

# Where no character of this set occurs, a word is simply a run of letters and digits, and a regular
# expression finds it three times faster. The set is wider than needed, never narrower.
_RARE = re.compile(
    r"[\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u1fff\u200c\u200d\u2060\u20d0-\u20f0"
    r"\u2c00-\U0010ffff]"
)


@cache
def _plain(punctuation: bool) -> re.Pattern[str]:
    return re.compile(r"[^\W_]+|[^\w\s]|_" if punctuation else r"[^\W_]+")


@cache
def _careful(punctuation: bool) -> re.Pattern[str]:
    """Words with combining marks and invisible joiners inside; ideographs alone."""
    points = (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))  # all planes that have marks
    inner = _ranges(point for point in points if unicodedata.category(chr(point))[0] == "M")
    # Possessive, so that ten megabytes of accents leave no trail of places to go back to.
    word = rf"[{_ALONE}]|[^\W_{_ALONE}]++(?:[{inner}{_INVISIBLE}]++[^\W_{_ALONE}]*+)*+"
    return re.compile(rf"{word}|[^\w\s]|_" if punctuation else word)


def _ranges(points: Iterable[int]) -> str:
    """Sorted code points as the inside of a character class."""
    runs: list[list[int]] = []
    for point in points:
        if runs and runs[-1][1] == point - 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)


def _pattern(text: str, config: TokenConfig) -> re.Pattern[str]:
    rare = not text.isascii() and _RARE.search(text) is not None
    return _careful(config.punctuation) if rare else _plain(config.punctuation)


def _normaliser(config: TokenConfig) -> Callable[[str], str]:
    """A function from a word as it stands in the text to the token, "" where it is dropped."""
    stops = STOP_WORDS[config.stop_words] if config.stop_words else frozenset[str]()
    lemma = lemmatiser(config.lemmas) if config.lemmas else None
    invisible = dict.fromkeys(map(ord, _INVISIBLE))

    def normalise(raw: str) -> str:
        if not config.numbers and raw.isnumeric():
            return ""
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
            word = lemma(word)
        return word.lower() if config.lower else word

    return normalise


def tokenise(text: str, config: TokenConfig) -> list[str]:
    """The tokens of a text, in order."""
    raws = _pattern(text, config).findall(text)
    tokens = _normalise_each(raws, config)
    return [tokens[raw] for raw in raws if tokens[raw]]


def spans(text: str, config: TokenConfig) -> list[tuple[int, int, str]]:
    """(start, end, token) with character offsets into `text`; the tokens are `tokenise`'s."""
    found = [(*match.span(), match.group()) for match in _pattern(text, config).finditer(text)]
    tokens = _normalise_each((raw for _, _, raw in found), config)
    return [(start, end, tokens[raw]) for start, end, raw in found if tokens[raw]]


def _normalise_each(raws: Iterable[str], config: TokenConfig) -> dict[str, str]:
    normalise = _normaliser(config)
    return {raw: normalise(raw) for raw in set(raws)}


def doc_spans(doc: Doc, config: TokenConfig) -> list[tuple[int, int, str]]:
    """(start, end, token) of the fields that `config` reads, offsets into `Doc.text`."""
    starts, start = {}, 0
    for name, text in doc.fields.items():
        starts[name] = start
        start += len(text) + 1
    return [
        (starts[name] + first, starts[name] + last, token)
        for name in (config.fields or doc.fields)
        if name in doc.fields
        for first, last, token in spans(doc.fields[name], config)
    ]


# ----------------------------------------------------------------------------------- one corpus


@dataclass(frozen=True, eq=False)
class Tokens:
    """A tokenised corpus: document i is `words[j] for j in ids[offsets[i]:offsets[i + 1]]`.

    Words are numbered as they first appear, so equal documents give equal bits. A prepared folder
    may hold less than the whole: documents cut at `max_length` tokens (0 = whole), and words seen
    fewer than `min_count` times in training replaced by "", which no vocabulary contains.
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
        """Documents that are already lists of words (or of phrases, or of labels)."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        listed = [[numbers[word] for word in row] for row in rows]
        ids = np.array([i for row in listed for i in row], dtype=narrow(len(numbers)))
        return cls(tuple(numbers), ids, np.cumsum([0, *map(len, listed)], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def __getitem__(self, row: int) -> list[str]:
        """The tokens of one document."""
        return [self.words[i] for i in self.ids[self.offsets[row] : self.offsets[row + 1]]]

    def __iter__(self) -> Iterator[list[str]]:
        """The tokens of each document; can be asked for again and again."""
        return (self[row] for row in range(len(self)))

    def take(self, rows: NDArray[np.int64]) -> Tokens:
        """Some documents; the same bits as tokenising only them."""
        ids, offsets = take_rows(self.ids, self.offsets, rows)
        return self._renumbered(ids, offsets, self.max_length)

    def cut(self, max_length: int) -> Tokens:
        """The first `max_length` tokens of each document; 0 is all of them."""
        check_length(self, max_length)
        if not max_length or max_length == self.max_length:
            return self
        ids, offsets = take_rows(self.ids, self.offsets, None, max_length=max_length)
        return self._renumbered(ids, offsets, max_length)

    def only(self, known: Container[str], min_count: int) -> Tokens:
        """The same with every word outside `known` replaced by ""; `min_count` says how often a
        known word was seen at least."""
        words = ("", *self.words)
        table = np.array([i + 1 if word in known else 0 for i, word in enumerate(self.words)])
        ids = table.astype(narrow(len(words)))[self.ids]
        wide = Tokens(words, ids, self.offsets, min_count, self.max_length)
        return wide._renumbered(ids, self.offsets, self.max_length)

    def _renumbered(self, ids: Ids, offsets: NDArray[np.int64], max_length: int) -> Tokens:
        first = np.full(len(self.words), -1, dtype=np.int64)
        first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # the last write, the first place, stays
        used = np.flatnonzero(first >= 0)
        used = used[np.argsort(first[used])]
        table = np.zeros(len(self.words), dtype=narrow(len(used)))
        table[used] = np.arange(len(used))
        words = tuple(self.words[i] for i in used)
        return Tokens(words, table[ids], offsets, self.min_count, max_length)

    def counts(self) -> NDArray[np.int64]:
        """How often each word occurs."""
        return np.bincount(self.ids, minlength=len(self.words))


def narrow(n: int) -> type[np.unsignedinteger[Any]]:
    """The smaller integer type that numbers n things from 0."""
    return np.uint16 if n <= 2**16 else np.uint32


def take_rows(
    ids: NDArray[Any],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64] | None,
    *,
    max_length: int = 0,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Ragged rows (all when None), each cut to `max_length` where that is not 0."""
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
    """Refuse to read more of each document than the prepared folder holds."""
    if tokens.max_length and not 0 < max_length <= tokens.max_length:
        wanted = f"the first {max_length:,} tokens" if max_length else "whole documents"
        raise DataError(
            f"{wanted} are asked for, but this corpus was prepared with the first "
            f"{tokens.max_length:,} tokens of each document",
            hint=f"set max_length to at most {tokens.max_length}, or prepare the corpus again",
        )


def check_count(tokens: Tokens, min_count: int, setting: str) -> None:
    """Refuse to tell words apart that the prepared folder does not tell apart."""
    if min_count < tokens.min_count:
        raise DataError(
            f"{setting} = {min_count}, but this corpus was prepared without the words seen fewer "
            f"than {tokens.min_count} times",
            hint=f"set {setting} to at least {tokens.min_count}, or prepare the corpus again",
        )


def tokens_recipe(config: TokenConfig) -> dict[str, Any]:
    """What tokens depend on besides the text; the cache finds them by it."""
    return {"tokens": VERSION, **settings_of(TokenConfig, config)}


def tokenise_corpus(corpus: Corpus, config: TokenConfig) -> Tokens:
    """The whole corpus as token ids, from the cache beside it when it was made before."""
    recipe = tokens_recipe(config)
    if corpus.rows is not None:
        whole = find(corpus.whole, recipe)
        if whole is not None:
            return from_parts(whole).take(corpus.rows)
    return from_parts(
        cached(
            corpus, recipe, lambda: to_parts(tokenise_texts(corpus.texts(config.fields), config))
        )
    )


def to_parts(tokens: Tokens) -> Parts:
    """Tokens as plain arrays and a list of words."""
    limits = np.array([tokens.min_count, tokens.max_length])
    arrays = {"ids": tokens.ids, "offsets": tokens.offsets, "limits": limits}
    return Parts(arrays, {"words": tokens.words})


def from_parts(parts: Parts) -> Tokens:
    """What `to_parts` took apart."""
    arrays = parts.arrays
    min_count, max_length = map(int, arrays["limits"])
    return Tokens(parts.lists["words"], arrays["ids"], arrays["offsets"], min_count, max_length)


# An ASCII character that is no letter or digit always ends a word: Arrow splits there, fast and
# without Python objects, and only the distinct chunks meet the regular expression.
_GROUP = 2**23  # characters split at a time
_BLOCK = 2**20  # chunks looked up at a time
_CONTROLS_TO_SPACES = bytes(32 if i < 0x21 or i == 0x7F else i for i in range(256))
_ALL_TO_SPACES = bytes(32 if i < 0x80 and not chr(i).isalnum() else i for i in range(256))
_MARKS = [bytes([point]) for point in range(0x21, 0x7F) if not chr(point).isalnum()]


def tokenise_texts(texts: Iterable[str], config: TokenConfig) -> Tokens:
    """The tokens of many texts: those of `tokenise`, found several times faster."""
    numbers: dict[str, int] = {}
    chunks, lengths = [np.empty(0, np.uint32)], [np.zeros(1, np.int64)]
    for group in _groups(texts):
        spaced = pa.array([_spaced(text, config.punctuation) for text in group], pa.string())
        lists = pc.ascii_split_whitespace(spaced)
        found = lists.flatten().dictionary_encode()
        distinct = found.dictionary.to_pylist()
        table = np.array([numbers.setdefault(chunk, len(numbers)) for chunk in distinct], np.uint32)
        chunks.append(table[found.indices.to_numpy()])
        lengths.append(lists.value_lengths().to_numpy())
    offsets = np.cumsum(np.concatenate(lengths), dtype=np.int64)
    return _expanded(numbers, np.concatenate(chunks), offsets, config)


def _groups(texts: Iterable[str]) -> Iterator[list[str]]:
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


def _spaced(text: str, punctuation: bool) -> bytes:
    """The text in UTF-8 with a space at every ASCII end of a word; marks apart, or gone."""
    raw = text.encode(errors="replace")  # a lone surrogate, which no corpus holds, is a mark
    if not punctuation:
        return raw.translate(_ALL_TO_SPACES)
    raw = raw.translate(_CONTROLS_TO_SPACES)
    for mark in _MARKS:
        if mark in raw:
            raw = raw.replace(mark, b" " + mark + b" ")
    return raw


def _expanded(
    numbers: Iterable[str],
    chunks: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    config: TokenConfig,
) -> Tokens:
    """Chunks -> tokens, by one table over the distinct chunks; a chunk may hold several tokens, or
    none."""
    normalise = _normaliser(config)
    words: dict[str, int] = {}
    pieces = [
        [
            words.setdefault(token, len(words))
            for token in map(normalise, _pattern(chunk, config).findall(chunk))
            if token
        ]
        for chunk in numbers
    ]
    counts = np.array([len(piece) for piece in pieces], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    flat = np.array([i for piece in pieces for i in piece], dtype=narrow(len(words)))
    ids, ends = [np.empty(0, flat.dtype)], [np.zeros(1, np.int64)]
    for low in range(0, len(chunks), _BLOCK):
        block = chunks[low : low + _BLOCK]
        n = counts[block]
        after = np.cumsum(n)
        ids.append(flat[np.repeat(starts[block] - after + n, n) + np.arange(n.sum())])
        ends.append(ends[-1][-1] + after)
    return Tokens(tuple(words), np.concatenate(ids), np.concatenate(ends)[offsets])


def check_fields(corpus: Corpus, config: TokenConfig) -> None:
    """Refuse, before training, field names that no document has; the first documents settle it."""
    if not config.fields or not corpus.has_text or not len(corpus):
        return
    seen: set[str] = set()
    for doc in corpus:
        seen.update(doc.fields)
        if seen & set(config.fields):
            return
    wrong = config.fields[0]
    raise ConfigError(f"no document has the text field {wrong!r}{nearest(wrong, sorted(seen))}")
