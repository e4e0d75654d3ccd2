"""Search concepts by name or notation, by the beginning or some words of one, and with typos.

    query -> id | name | synonym | notation (whole) -> prefix -> words -> similar -> best hits

All names are sorted, so whole names and prefixes are found by bisection. A trigram index gives the
candidates for words and typos, which are then compared letter by letter.
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

Kind = Literal["id", "name", "synonym", "notation", "prefix", "words", "similar"]
_SOURCES: tuple[Kind, ...] = ("name", "synonym", "notation")  # of a text, in the order of hits

_LAST = chr(0x10FFFF)
_CANDIDATES = 200  # texts compared letter by letter for one query with a typo


@dataclass(frozen=True, slots=True)
class Hit:
    """A concept, its name that matched, and the kind of match."""

    label: str
    text: str
    kind: Kind


class Search:
    """Searches the concepts of one ontology; `language` limits names and synonyms to one."""

    def __init__(self, ontology: Ontology, language: str | None = None) -> None:
        self._ontology = ontology
        entries = sorted(set(_list_entries(ontology, language)))
        self._texts = [normal for normal, _, _, _ in entries]
        self._shown = [text for _, _, _, text in entries]
        self._concept = np.array([concept for _, concept, _, _ in entries], dtype=np.int64)
        lengths = np.array([len(text) for text in self._texts], dtype=np.int64)
        deprecated = np.zeros(len(ontology), dtype=bool)
        deprecated[[i for i, label in enumerate(ontology.ids) if label in ontology.deprecated]] = 1
        source = np.array([source for _, _, source, _ in entries], dtype=np.int8)
        self._source, self._lengths = source, lengths
        # Order of equal matches: not deprecated, preferred names, short texts come first.
        self._rank = np.empty(len(entries), dtype=np.int64)
        order = np.lexsort((self._concept, lengths, source, deprecated[self._concept]))
        self._rank[order] = np.arange(len(entries))
        self._trigrams = _Trigrams(self._texts)

    def find(self, query: str, limit: int = 10) -> list[Hit]:
        """Return the concepts that match best, each once."""
        hits: dict[str, Hit] = {}
        if query.strip() in self._ontology:
            hits[query.strip()] = Hit(query.strip(), query.strip(), "id")
        normal = normalise(query)
        if not normal:
            return list(hits.values())
        for kind, entries in self._find_matches(normal):
            for entry in entries.tolist():
                if len(hits) >= limit:
                    return list(hits.values())
                label = self._ontology.ids[self._concept[entry]]
                found = _SOURCES[self._source[entry]] if kind == "name" else kind
                hits.setdefault(label, Hit(label, self._shown[entry], found))
        return list(hits.values())

    def _find_matches(self, query: str) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
        """Yield kinds of matches, best first; later kinds are computed on demand."""
        start = bisect_left(self._texts, query)
        stop = bisect_left(self._texts, query + _LAST)
        whole = np.flatnonzero(self._lengths[start:stop] == len(query)) + start
        yield "name", self._sort_entries(whole)
        yield "prefix", self._sort_entries(np.arange(start, stop))
        words = query.split()
        candidates = self._trigrams.find_with_all(words)
        inside = [i for i in candidates.tolist() if all(word in self._texts[i] for word in words)]
        yield "words", self._sort_entries(np.array(inside, dtype=np.int64))
        yield "similar", self._find_similar(query)

    def _sort_entries(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        return entries[np.argsort(self._rank[entries])]

    def _find_similar(self, query: str) -> NDArray[np.int64]:
        """Return names at one edit, or two for queries of eight letters or more; closest first.

        A notation at one edit is another notation.
        """
        allowed = 0 if len(query) < 4 else 1 if len(query) < 8 else 2
        shared = self._trigrams.count_shared(query)
        # One edit changes at most four trigrams (by a swap of neighbours).
        enough = (
            (shared >= max(1, len(query) - 4 * allowed))
            & (np.abs(self._lengths - len(query)) <= allowed)
            & (self._source != _SOURCES.index("notation"))
        )
        candidates = np.flatnonzero(enough)
        candidates = candidates[np.lexsort((self._rank[candidates], -shared[candidates]))]
        near = []
        for entry in candidates[:_CANDIDATES].tolist():
            distance = count_edits(query, self._texts[entry], allowed)
            if distance <= allowed:
                near.append((distance, entry))
        near.sort(key=lambda pair: pair[0])  # stable: more trigrams in common first
        return np.array([entry for _, entry in near], dtype=np.int64)


def normalise(text: str) -> str:
    """Return the text in NFKC, case-folded, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _list_entries(ontology: Ontology, language: str | None) -> Iterator[tuple[str, int, int, str]]:
    """Yield (normalised text, concept, its source, text) of every name and notation."""
    for tag, names in ontology.names.items():
        if language in (None, tag):
            for concept, name in names.items():
                yield normalise(name), concept, 0, name
    for label, notation in ontology.notations.items():
        if label in ontology:
            yield normalise(notation), ontology.index[label], 2, notation
    for tag, synonyms in ontology.synonyms.items():
        if language in (None, tag):
            for concept, own in synonyms.items():
                for synonym in own:
                    yield normalise(synonym), concept, 1, synonym


class _Trigrams:
    """An index of the trigrams of texts, with a space at both ends of each text."""

    def __init__(self, texts: list[str]) -> None:
        self._n_texts = len(texts)
        keys = _trigram_keys("".join(f" {text} " for text in texts))
        lengths = np.array([len(text) + 2 for text in texts], dtype=np.int64)
        owner = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
        inside = np.ones(len(owner), dtype=bool)
        for back in (1, 2):  # no trigram starts at the last two letters of a text
            inside[np.cumsum(lengths) - back] = False
        keys, owner = keys[inside[: len(keys)]], owner[inside]
        order = np.argsort(keys, kind="stable")
        self._owner = owner[order]
        self._keys, self._starts = np.unique(keys[order], return_index=True)
        self._stops = np.append(self._starts[1:], len(order))

    def count_shared(self, text: str) -> NDArray[np.int64]:
        """Return for each indexed text the number of trigrams that it shares with this text."""
        return self._count(np.unique(_trigram_keys(f" {text} ")))

    def find_with_all(self, words: list[str]) -> NDArray[np.int64]:
        """Return texts that may contain all these words; none if no word has three letters."""
        keys = np.unique(np.concatenate([_trigram_keys(word) for word in words]))
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


def _trigram_keys(text: str) -> NDArray[np.uint64]:
    """Return each trigram as one number; a code point has 21 bits."""
    # A lone surrogate is not valid text, but a search for it must not fail.
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    bits = np.uint64(21)
    return (((codes[:-2] << bits) | codes[1:-1]) << bits) | codes[2:]


def count_edits(a: str, b: str, most: int) -> int:
    """Return the edit distance of two texts, or any number above `most` if it is larger.

    An edit inserts, drops or changes a letter, or swaps two neighbours.
    """
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
