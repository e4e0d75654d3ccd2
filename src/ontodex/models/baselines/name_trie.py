"""Find every name of an ontology's concepts in a corpus, with a trie of word forms.

    names ─ tokens ─ forms ─ trie          corpus ─ tokens ─ forms ─┐
                              └────────── longest match at every token ─ Matches

A form is a word without case and plural ending. Short words in capitals (WHO, IT) keep their case,
so that "who" does not match the World Health Organization. All documents are searched together: one
array step extends every open match by one token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ontodex.features.languages import STOP_WORDS
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import LemmaTable, Tokens, make_tokeniser
from ontodex.types import Ontology

Stem = Literal["plural", "none"]
Ints = NDArray[np.int64]

UNKNOWN, SKIP = -1, -2
_NONE = np.empty(0, dtype=np.int64)

_ACRONYM = 5  # capitals longer than this are a heading, not an acronym
_BLOCK_TOKENS = 2**21  # searched at a time
MAX_FORMS = 100  # of a name; no text has a longer one word for word, and each costs an array step
_QUALIFIER = re.compile(r"[(\[<][^()\[\]<>]*+[)\]>]\s*+$")
_NO_PLURAL = ("ss", "us", "is")


@dataclass(frozen=True)
class Spelling:
    """The rules by which words of names and of texts match."""

    stem: Stem = "plural"
    skip: tuple[str, ...] = ("en",)  # languages whose stop words are skipped

    @cached_property
    def _skipped(self) -> frozenset[str]:
        return frozenset[str]().union(*(STOP_WORDS.get(language, ()) for language in self.skip))

    def normalise(self, word: str) -> str:
        """Return the form of a word, "" for a skipped one; words with equal forms match."""
        if word.isupper() and 2 <= len(word) <= _ACRONYM:
            return word
        word = word.lower()
        if word in self._skipped:
            return ""
        return strip_plural(word) if self.stem == "plural" else word

    def look_up(self, word: str, forms: Mapping[str, int]) -> int:
        """Return the number of a word's form; UNKNOWN if no name has it, SKIP if it is skipped."""
        form = self.normalise(word)
        return forms.get(form, UNKNOWN) if form else SKIP

    def make_normaliser(
        self, config: TokenConfig, lemmas: LemmaTable | None = None
    ) -> Callable[[str], tuple[str, ...]]:
        """Return a function from a text to the forms of its words, without skipped words.

        It computes each distinct word once, because the names of a vocabulary share most words.
        """
        tokenise, normalise = make_tokeniser(config, lemmas), cache(self.normalise)
        return lambda text: tuple(filter(None, map(normalise, tokenise(text))))


def strip_plural(word: str) -> str:
    """Remove an English plural ending by simple rules, the same for names and texts."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(_NO_PLURAL):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def generate_variants(name: str) -> Iterator[str]:
    """Yield the ways in which texts write a name.

    These are the name itself, the name without a qualifier in brackets at its end, and the name
    with its two parts exchanged at a single comma ("Anemia, Sickle Cell").
    """
    yield name
    found = _QUALIFIER.search(name)
    bare = name[: found.start()].rstrip() if found else name
    if bare and bare != name:
        yield bare
    head, comma, tail = bare.partition(", ")
    if comma and "," not in tail and tail:
        yield f"{tail} {head}"


@dataclass(frozen=True, eq=False)
class Matches:
    """Occurrences of names: tokens `starts` to `stops` (exclusive) of document `rows`."""

    rows: Ints
    starts: Ints
    stops: Ints
    names: Ints
    inside: NDArray[np.bool_]  # whether the occurrence lies inside a longer one


class NameTrie:
    """Names, numbered from 0, as paths of forms."""

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        """Build the trie of `names`: sequences of forms, all different.

        Names of more than `MAX_FORMS` forms keep their number and match nothing.
        """
        words = dict.fromkeys(chain.from_iterable(names))
        self.forms: Mapping[str, int] = {word: number for number, word in enumerate(words)}
        self._width = max(len(self.forms), 1)
        lengths = np.fromiter(map(len, names), np.int64, len(names))
        starts = np.cumsum(lengths) - lengths
        forms = np.fromiter(map(self.forms.__getitem__, chain.from_iterable(names)), np.int64)
        entered = np.flatnonzero(lengths <= MAX_FORMS)
        node = np.zeros(len(names), np.int64)  # where each name has got to
        keys, nodes, n_nodes = [_NONE], [_NONE], 1
        for depth in range(int(lengths[entered].max(initial=0))):  # all names take one step
            longer = entered[lengths[entered] > depth]
            steps = node[longer] * self._width + forms[starts[longer] + depth]
            new, place = np.unique(steps, return_inverse=True)
            node[longer] = n_nodes + place
            keys.append(new)  # nodes rise with the depth, and so do their keys
            nodes.append(n_nodes + np.arange(len(new)))
            n_nodes += len(new)
        self._keys, self._nodes = np.concatenate(keys), np.concatenate(nodes)
        self._name_at = np.full(n_nodes, -1, dtype=np.int64)
        self._name_at[node[entered]] = entered

    def find(self, tokens: Tokens, spelling: Spelling) -> Matches:
        """Return every occurrence of a name, by row, start and falling length."""
        table = np.fromiter(
            (spelling.look_up(word, self.forms) for word in tokens.words),
            np.int64,
            len(tokens.words),
        )
        parts = [
            self._search(table, tokens, low, high) for low, high in _split_documents(tokens.offsets)
        ]
        starts, stops, names, inside = (
            np.concatenate([np.empty(0, np.int64), *arrays])
            for arrays in (zip(*parts, strict=True) if parts else ([], [], [], []))
        )
        rows = np.searchsorted(tokens.offsets, starts, side="right") - 1
        first = tokens.offsets[rows]
        return Matches(rows, starts - first, stops - first, names, inside.astype(bool))

    def _search(self, table: Ints, tokens: Tokens, low: int, high: int) -> tuple[Ints, ...]:
        """Return start, stop, name and inside of the matches in documents low to high.

        Starts and stops count the tokens of the whole corpus.
        """
        base, end = int(tokens.offsets[low]), int(tokens.offsets[high])
        forms = table[tokens.ids[base:end]]
        places = np.flatnonzero(forms != SKIP)  # of words that are not skipped
        forms = forms[places]
        ends = np.searchsorted(places, tokens.offsets[low + 1 : high + 1] - base)
        lengths = np.diff(ends, prepend=0)
        last = np.repeat(ends, lengths)  # one past the last form of the document
        open_ = np.arange(len(forms))
        nodes = np.zeros(len(forms), dtype=np.int64)
        starts, stops, names = [], [], []
        for depth in range(len(forms)):
            inside = open_ + depth < last[open_]
            open_, nodes = self._extend(open_[inside], nodes[inside], forms, depth)
            if not len(open_):
                break
            found = self._name_at[nodes] >= 0
            starts.append(places[open_[found]] + base)
            stops.append(places[open_[found] + depth] + base + 1)
            names.append(self._name_at[nodes[found]])
        return _sort_matches(*(np.concatenate([_NONE, *part]) for part in (starts, stops, names)))

    def _extend(self, open_: Ints, nodes: Ints, forms: Ints, depth: int) -> tuple[Ints, Ints]:
        """Return the open matches that the next form continues, and their nodes in the trie."""
        following = forms[open_ + depth]
        known = following >= 0
        open_, keys = open_[known], nodes[known] * self._width + following[known]
        at = np.searchsorted(self._keys, keys)
        at[at == len(self._keys)] = 0
        goes_on = self._keys[at] == keys if len(keys) else at.astype(bool)
        return open_[goes_on], self._nodes[at[goes_on]]


def _sort_matches(starts: Ints, stops: Ints, names: Ints) -> tuple[Ints, ...]:
    order = np.lexsort((-stops, starts))
    starts, stops = starts[order], stops[order]
    inside = np.zeros(len(starts), dtype=bool)
    inside[1:] = np.maximum.accumulate(stops)[:-1] >= stops[1:]
    return starts, stops, names[order], inside.astype(np.int64)


def _split_documents(offsets: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of documents with about _BLOCK_TOKENS tokens."""
    low = 0
    while low < len(offsets) - 1:
        high = max(
            low + 1, int(np.searchsorted(offsets, offsets[low] + _BLOCK_TOKENS, side="right")) - 1
        )
        yield low, high
        low = high


@dataclass(frozen=True, eq=False)
class ConceptNames:
    """A trie of all names, and for each name the concepts that have it."""

    trie: NameTrie
    indptr: Ints  # name i belongs to columns[indptr[i]:indptr[i + 1]]
    columns: Ints
    preferred: NDArray[np.bool_]  # whether it is their preferred name

    @classmethod
    def of(
        cls,
        ontology: Ontology,
        column: Mapping[str, int],
        readings: Mapping[str, TokenConfig],
        spelling: Spelling,
        lemmas: LemmaTable | None = None,
    ) -> ConceptNames:
        """Collect the names and synonyms of the concepts that have a column.

        `readings` has the language tags whose names are taken, and how the names of each are read.
        `lemmas` are those of their words that are known; the others are added.
        """
        normalise = {
            tag: spelling.make_normaliser(config, lemmas) for tag, config in readings.items()
        }
        owners: dict[tuple[str, ...], dict[int, bool]] = {}
        for number, tag, name, is_preferred in _iterate_names(ontology, column, list(readings)):
            for variant in generate_variants(name):
                key = normalise[tag](variant)
                _add(owners, key, number, is_preferred)
                if len(key) == 2:  # "contract award" for "award of contract"
                    _add(owners, key[::-1], number, is_preferred=False)
        counts = [len(concepts) for concepts in owners.values()]
        pairs = [pair for concepts in owners.values() for pair in concepts.items()]
        return cls(
            NameTrie(list(owners)),
            np.cumsum([0, *counts]),
            np.array([number for number, _ in pairs], dtype=np.int64),
            np.array([is_preferred for _, is_preferred in pairs], dtype=bool),
        )

    def find_names(self, column: int) -> Ints:
        """Return the numbers of the names of one concept."""
        return np.searchsorted(self.indptr, np.flatnonzero(self.columns == column), "right") - 1


def _add(
    owners: dict[tuple[str, ...], dict[int, bool]],
    key: tuple[str, ...],
    number: int,
    is_preferred: bool,
) -> None:
    if key:
        concepts = owners.setdefault(key, {})
        concepts[number] = concepts.get(number, False) or is_preferred


def _iterate_names(
    ontology: Ontology, column: Mapping[str, int], tags: Sequence[str]
) -> Iterator[tuple[int, str, str, bool]]:
    """Yield (column, language tag, name, whether it is preferred) of every name of every concept.

    Names become lists first: there may be a million, and a list is read fastest.
    """
    n = len(ontology)
    sources = [
        (tag, list(ontology.names.get(tag, [""] * n)), list(ontology.synonyms.get(tag, [()] * n)))
        for tag in tags
    ]
    for label, number in column.items():
        row = ontology.index.get(label)
        if row is None:
            continue
        for tag, names, synonyms in sources:
            if names[row]:
                yield number, tag, names[row], True
            for synonym in synonyms[row]:
                yield number, tag, synonym, False
