"""The guess of the languages of a corpus, from all of its texts together.

    texts ─ stop words of each ─ mixture of languages ─ few stop words? ─ dictionaries of lemmas

A text is in one language; the mixture says how many are in which. A word that several languages
have, such as "ja", is taken for the one that explains the other texts. Titles often have no stop
word: then the dictionaries decide between the languages of the vocabulary and the most likely ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ontodex.errors import MissingExtraError
from ontodex.features.languages import STOP_WORDS, count_known, find_words, list_owners

LEAST_SHARE = 0.05  # of the texts; a language with fewer is not one of the corpus
_LEAST_WORDS = 3  # different stop words of a language that its texts must have between them
_SURE_SHARE = 0.25  # of the texts that must have a stop word, or the dictionaries are asked
_UNEXPECTED = 0.5  # probability of a language that the vocabulary does not have, relative to others
_SUPPORT = 2.0  # log of how much likelier a stop word is in its own language
_ROUNDS = 50  # of the estimate; it converges in fewer
_DICTIONARIES = 5  # at most that are read, each a second
_DICTIONARY_WORDS = 1_000  # looked up in each
_KNOWN_SHARE = 0.5  # of the words, in the dictionary of the language of a corpus
_KNOWN_RATIO = 1.5  # times those in any other


@dataclass(frozen=True)
class LanguageGuess:
    """The languages of a corpus, the most frequent first, and whether the texts show them."""

    languages: tuple[str, ...]
    is_sure: bool


def guess_languages(texts: Iterable[str], expected: Collection[str] = ()) -> LanguageGuess:
    """Return the languages of a corpus; `expected` are those of its vocabulary."""
    words = [find_words(text) for text in texts]
    filled = [found for found in words if found]
    if not filled:
        return LanguageGuess((), is_sure=False)
    counts = _count_stop_words(filled)
    shares, owner = _estimate_shares(counts, expected)
    names = np.array(list(STOP_WORDS))
    likely = [str(names[i]) for i in np.argsort(-shares, kind="stable") if shares[i] > 0]
    seen = {name: _find_stop_words(filled, owner == i, name) for i, name in enumerate(names)}
    share = dict(zip(names.tolist(), shares.tolist(), strict=True))
    shown = [name for name in likely if share[name] >= LEAST_SHARE and seen[name] >= _LEAST_WORDS]
    if shown and np.mean(owner >= 0) >= _SURE_SHARE:
        return LanguageGuess(tuple(shown), is_sure=True)
    asked = dict.fromkeys([*likely[:_LEAST_WORDS], *expected])
    found = _ask_dictionaries(filled, list(asked)[:_DICTIONARIES])
    if found:
        others = [name for name in shown if name != found]
        return LanguageGuess((found, *others), is_sure=True)
    return LanguageGuess(tuple(shown), is_sure=False)


def _count_stop_words(words: Sequence[set[str]]) -> NDArray[np.float64]:
    """Count the different stop words of each language in each text (texts, languages)."""
    languages = tuple(STOP_WORDS)
    number = {language: i for i, language in enumerate(languages)}
    owners = list_owners(languages)
    counts = np.zeros((len(words), len(languages)))
    for row, found in enumerate(words):
        for word in {word.lower() for word in found}:
            for language in owners.get(word, ()):
                counts[row, number[language]] += 1
    return counts


def _estimate_shares(
    counts: NDArray[np.float64], expected: Collection[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the share of each language, and the number of each text's; -1 without a stop word.

    The estimate is expectation maximisation: shares and the languages of the texts in turn.
    """
    has_any = counts.any(axis=1)
    prior = [1.0 if name in expected or not expected else _UNEXPECTED for name in STOP_WORDS]
    own = counts[has_any]
    fit = np.exp(_SUPPORT * (own - own.max(axis=1, keepdims=True, initial=0))) * np.array(prior)
    shares = np.full(counts.shape[1], 1 / counts.shape[1])
    owner = np.full(len(counts), -1)
    if not len(fit):
        return np.zeros(counts.shape[1]), owner
    for _ in range(_ROUNDS):
        found = fit * shares
        found /= found.sum(axis=1, keepdims=True)
        shares = found.mean(axis=0)
    owner[has_any] = found.argmax(axis=1)
    return np.where(np.isin(np.arange(len(shares)), owner), shares, 0.0), owner


def _find_stop_words(words: Sequence[set[str]], chosen: NDArray[np.bool_], language: str) -> int:
    """Count the different stop words of a language in its texts.

    A further language must show by several: Finnish "hauen", of the pike, is Basque too.
    """
    seen = {word.lower() for i in np.flatnonzero(chosen).tolist() for word in words[i]}
    return len(seen & STOP_WORDS[language])


def _ask_dictionaries(words: Sequence[set[str]], languages: Sequence[str]) -> str:
    """Return the language whose dictionary has most of the words, "" where that is not clear."""
    distinct = dict.fromkeys(word for found in words for word in sorted(found))
    some = list(islice(distinct, _DICTIONARY_WORDS))
    try:
        known = {language: count_known(some, language) for language in languages}
    except MissingExtraError:
        return ""
    best, *others = sorted(known, key=known.__getitem__, reverse=True) or [""]
    most = known.get(best, 0)
    rest = max((known[other] for other in others), default=0)
    is_clear = most >= max(_LEAST_WORDS, _KNOWN_SHARE * len(some), _KNOWN_RATIO * rest)
    return best if is_clear else ""
