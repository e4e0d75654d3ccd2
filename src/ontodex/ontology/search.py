"""Concepts by what people type: a name, its beginning, some of its words, a name with a typo.

    query -> id | name | synonym (whole) -> prefix -> words -> similar -> Hits, best first

All texts are kept sorted, which answers whole names and beginnings by bisection. A trigram index,
sorted arrays made without a Python loop, gives the candidates for words and for typos; both are
then checked letter by letter.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ontodex.types import Ontology

Kind = Literal["id", "name", "synonym", "prefix", "words", "similar"]

_LAST = chr(0x10FFFF)
_CANDIDATES = 200  # texts compared letter by letter for one mistyped query


@dataclass(frozen=True, slots=True)
class Hit:
    """A concept, the text of it that matched, and how."""

    label: str
    text: str
    kind: Kind


class Search:
    """Finds concepts of one ontology; `language` limits names and synonyms to one."""

    def __init__(self, ontology: Ontology, language: str | None = None) -> None:
        self._ontology = ontology
        entries = sorted(set(_entries(ontology, language)))
        self._texts = [normal for normal, _, _, _ in entries]
        self._shown = [text for _, _, _, text in entries]
        self._concept = np.array([concept for _, concept, _, _ in entries], dtype=np.int64)
        lengths = np.array([len(text) for text in self._texts], dtype=np.int64)
        deprecated = np.zeros(len(ontology), dtype=bool)
        deprecated[[i for i, label in enumerate(ontology.ids) if label in ontology.deprecated]] = 1
        is_synonym = np.array([synonym for _, _, synonym, _ in entries], dtype=bool)
        self._is_synonym, self._lengths = is_synonym, lengths
        # The order among equal matches: living concepts, preferred names, short texts first.
        self._rank = np.empty(len(entries), dtype=np.int64)
        order = np.lexsort((self._concept, lengths, is_synonym, deprecated[self._concept]))
        self._rank[order] = np.arange(len(entries))
        self._trigrams = _Trigrams(self._texts)

    def find(self, query: str, limit: int = 10) -> list[Hit]:
        """The concepts that match best, each once."""
        hits: dict[str, Hit] = {}
        if query.strip() in self._ontology:
            hits[query.strip()] = Hit(query.strip(), query.strip(), "id")
        normal = normalise(query)
        if not normal:
            return list(hits.values())
        for kind, entries in self._matches(normal):
            for entry in entries.tolist():
                if len(hits) >= limit:
                    return list(hits.values())
                label = self._ontology.ids[self._concept[entry]]
                whole: Kind = "synonym" if self._is_synonym[entry] else "name"
                found: Kind = whole if kind == "name" else kind
                hits.setdefault(label, Hit(label, self._shown[entry], found))
        return list(hits.values())

    def _matches(self, query: str) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
        """Numbers of texts, best kind first; a later kind is only looked for when asked for."""
        start = bisect_left(self._texts, query)
        stop = bisect_left(self._texts, query + _LAST)
        whole = np.flatnonzero(self._lengths[start:stop] == len(query)) + start
        yield "name", self._ordered(whole)
        yield "prefix", self._ordered(np.arange(start, stop))
        words = query.split()
        candidates = self._trigrams.with_all(words)
        inside = [i for i in candidates.tolist() if all(word in self._texts[i] for word in words)]
        yield "words", self._ordered(np.array(inside, dtype=np.int64))
        yield "similar", self._similar(query)

    def _ordered(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        return entries[np.argsort(self._rank[entries])]

    def _similar(self, query: str) -> NDArray[np.int64]:
        """Texts one edit away, or two in queries of eight letters and more; closest first."""
        allowed = 0 if len(query) < 4 else 1 if len(query) < 8 else 2
        shared = self._trigrams.shared(query)
        # One edit touches at most four trigrams (a swap of neighbours does).
        enough = (shared >= max(1, len(query) - 4 * allowed)) & (
            np.abs(self._lengths - len(query)) <= allowed
        )
        candidates = np.flatnonzero(enough)
        candidates = candidates[np.lexsort((self._rank[candidates], -shared[candidates]))]
        near = []
        for entry in candidates[:_CANDIDATES].tolist():
            distance = edits(query, self._texts[entry], allowed)
            if distance <= allowed:
                near.append((distance, entry))
        near.sort(key=lambda pair: pair[0])  # stable: more trigrams in common first
        return np.array([entry for _, entry in near], dtype=np.int64)


def normalise(text: str) -> str:
    """The text as it is compared: one form of each letter, no case, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _entries(ontology: Ontology, language: str | None) -> Iterator[tuple[str, int, bool, str]]:
    """(normal text, concept, is a synonym, text as written) of every name."""
    for tag, names in ontology.names.items():
        if language in (None, tag):
            for concept, name in enumerate(names):
                if name:
                    yield normalise(name), concept, False, name
    for tag, synonyms in ontology.synonyms.items():
        if language in (None, tag):
            for concept, own in enumerate(synonyms):
                for synonym in own:
                    yield normalise(synonym), concept, True, synonym


class _Trigrams:
    """Which texts hold which three letters in a row, a space standing at both ends of a text."""

    def __init__(self, texts: list[str]) -> None:
        self._n_texts = len(texts)
        keys = _keys("".join(f" {text} " for text in texts))
        lengths = np.array([len(text) + 2 for text in texts], dtype=np.int64)
        owner = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
        inside = np.ones(len(owner), dtype=bool)
        for back in (1, 2):  # no trigram begins at the last two letters of a text
            inside[np.cumsum(lengths) - back] = False
        keys, owner = keys[inside[: len(keys)]], owner[inside]
        order = np.argsort(keys, kind="stable")
        self._owner = owner[order]
        self._keys, self._starts = np.unique(keys[order], return_index=True)
        self._stops = np.append(self._starts[1:], len(order))

    def shared(self, text: str) -> NDArray[np.int64]:
        """For each text, how many of this text's trigrams it has."""
        return self._count(np.unique(_keys(f" {text} ")))

    def with_all(self, words: list[str]) -> NDArray[np.int64]:
        """Texts that may have all these words inside; none when no word has three letters."""
        keys = np.unique(np.concatenate([_keys(word) for word in words]))
        if not len(keys):
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self._count(keys) >= len(keys))

    def _count(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        at = np.searchsorted(self._keys, keys)
        known = [
            slice(self._starts[i], self._stops[i])
            for i, key in zip(at.tolist(), keys, strict=True)
            if i < len(self._keys) and self._keys[i] == key
        ]
        owners = [self._owner[part] for part in known]
        return np.bincount(
            np.concatenate([np.empty(0, np.int32), *owners]), minlength=self._n_texts
        )


def _keys(text: str) -> NDArray[np.uint64]:
    """Each three letters in a row as one number; a code point has 21 bits."""
    # A lone surrogate is no text, but a search for one must not fail either.
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    bits = np.uint64(21)
    return (((codes[:-2] << bits) | codes[1:-1]) << bits) | codes[2:]


def edits(a: str, b: str, most: int) -> int:
    """Letters to insert, drop, change, or swap with a neighbour to turn `a` into `b`; some number
    above `most` as soon as that is certain."""
    if abs(len(a) - len(b)) > most:
        return most + 1
    far = most + 1
    before, last = [far] * (len(b) + 1), [j if j <= most else far for j in range(len(b) + 1)]
    for i, letter in enumerate(a, start=1):
        row = [far] * (len(b) + 1)
        if i <= most:
            row[0] = i
        for j in range(max(1, i - most), min(len(b), i + most) + 1):
            row[j] = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != b[j - 1]))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == b[j - 1]:
                row[j] = min(row[j], before[j - 2] + 1)
        if min(row) > most and min(last) > most:
            return far
        before, last = last, row
    return last[-1]
