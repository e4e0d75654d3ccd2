"""Languages: their codes, names, stop words and lemmas, and the guess of a text's language.

languages.tsv has one line for each language. Stop words carry grammar, not subject. The pieces of
words with an apostrophe (don't, l'eau) are among them, since the tokeniser splits there. The same
words distinguish languages: they are frequent in any text, and need no dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ontodex.config import suggest_similar
from ontodex.errors import ConfigError, require

OWN = "own"  # as a setting: the language of each document
UNDETERMINED = "und"  # language of names in files without language tags
NONE = "none"  # as a setting: texts are read without a language

GUESS_LETTERS = 2_000  # characters of a text that are looked at
_FOREIGN_WORDS = 3.0  # stop words that a text of another language must have
_FOREIGN_RATIO = 2.0  # to those of the languages that are expected
_IDEOGRAPHS = r"\u3040-\u309f\u4e00-\u9fff"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W\d_{_IDEOGRAPHS}]{{2,}}")


@dataclass(frozen=True)
class Language:
    """A line of languages.tsv."""

    code: str
    name: str
    aliases: tuple[str, ...]
    stop_words: frozenset[str]


def _read_table() -> dict[str, Language]:
    text = Path(__file__).with_name("languages.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {
        code: Language(code, name, tuple(filter(None, others.split(","))), frozenset(words.split()))
        for code, name, others, words in rows
    }


LANGUAGES = _read_table()
STOP_WORDS = {code: found.stop_words for code, found in LANGUAGES.items() if found.stop_words}
_CODES = {
    alias.casefold(): found.code
    for found in LANGUAGES.values()
    for alias in (*found.aliases, found.name, found.code)
}


def to_code(tag: str) -> str:
    """Return the code of a language given by a code, a tag such as en-GB, or a name.

    What is not known is returned as it is, in lower case.
    """
    wanted = tag.strip().casefold()
    primary = re.split("[-_]", wanted)[0]
    return _CODES.get(wanted) or _CODES.get(primary) or wanted


def find_language(name: str) -> str:
    """Return the code of a language given by code or name; refuse an unknown one."""
    code = to_code(name)
    if code not in LANGUAGES:
        known = [language.name for language in LANGUAGES.values()]
        raise ConfigError(
            f"{name[:60]!r} is no language that ontodex knows{suggest_similar(name, known, 1)}",
            hint="use a code such as fi or a name such as Finnish; `none` reads texts without one",
        )
    return code


def find_languages(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the codes of languages given by code or name, each once; none of them for `none`."""
    listed = [names] if isinstance(names, str) else list(names)
    if [name.casefold() for name in listed] == [NONE]:
        return ()
    return tuple(dict.fromkeys(map(find_language, listed)))


def name_language(tag: str) -> str:
    """Return the English name of a language; the tag itself where it is not known."""
    found = LANGUAGES.get(to_code(tag))
    return found.name if found else tag


def list_names(languages: Iterable[str]) -> str:
    """Return the names of languages for a sentence: `German and English`."""
    *first, last = map(name_language, languages)
    return f"{', '.join(first)} and {last}" if first else last


def match_tag(language: str, tags: Iterable[str]) -> str | None:
    """Return the tag of a vocabulary for a language given by tag, code or name; None without one.

    A tag that is equal comes before one of the same language (en before en-gb).
    """
    found = sorted(tag for tag in tags if to_code(tag) == to_code(language))
    return language if language in found else next(iter(found), None)


def find_words(text: str) -> set[str]:
    """Return the different words of the beginning of a text.

    Words in capitals are left out: DIN is a standard, and "din" is Danish.
    """
    return {word for word in _WORD.findall(text[:GUESS_LETTERS]) if not word.isupper()}


@cache
def list_owners(languages: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return stop word -> the languages, of these, that have it."""
    owners: dict[str, tuple[str, ...]] = {}
    for language in languages:
        for word in STOP_WORDS.get(language, ()):
            owners[word] = (*owners.get(word, ()), language)
    return owners


def _score(text: str, languages: tuple[str, ...]) -> dict[str, float]:
    """Count the different stop words of each language; one that n languages have counts 1 / n."""
    owners = list_owners(languages)
    scores = dict.fromkeys(languages, 0.0)
    for word in {word.lower() for word in find_words(text)}:
        own = owners.get(word, ())
        for language in own:
            scores[language] += 1 / len(own)
    return scores


def guess_language(text: str) -> str:
    """Return the language of a text among all that have stop words; "" where it is not clear."""
    scores = _score(text, tuple(STOP_WORDS))
    best, second = sorted(scores, key=scores.__getitem__, reverse=True)[:2]
    return best if scores[best] >= 1 and scores[best] > scores[second] else ""


def choose_language(text: str, languages: tuple[str, ...]) -> str:
    """Return the language of a text among a few.

    Stop words decide. Where they do not, as in a short title, the dictionaries of lemmas do, and
    in the end the first language.
    """
    scores = _score(text, languages)
    best = max(scores.values())
    left = [language for language in languages if scores[language] == best]
    if len(left) > 1:
        words = find_words(text)
        return max(left, key=lambda language: count_known(words, language))
    return left[0]


def find_foreign_language(text: str, languages: tuple[str, ...]) -> str:
    """Return the language of a text that is clearly in none of `languages`, else ""."""
    if not languages:
        return ""
    scores = _score(text, tuple(STOP_WORDS))
    expected = max(scores.get(language, 0.0) for language in languages)
    best = max(scores, key=scores.__getitem__)
    is_foreign = scores[best] >= max(_FOREIGN_WORDS, _FOREIGN_RATIO * expected)
    return best if is_foreign and best not in languages else ""


def load_lemmatiser(language: str) -> Callable[[str], str]:
    """Return a function from a word to its lemma in a language."""
    simplemma = require("simplemma", extra="learn", purpose="finding the lemmas of words")
    if not has_lemmas(language):
        raise ConfigError(
            f"lemmas: there is no dictionary for the language {language!r}",
            hint="use a code such as en, de, fr or fi, or leave lemmas empty",
        )
    return lambda word: str(simplemma.lemmatize(word, lang=language))


@cache
def get_dictionary_version() -> str:
    """Return the package and version of the dictionaries of lemmas; "" without them."""
    try:
        return f"simplemma {version('simplemma')}"
    except PackageNotFoundError:
        return ""


@cache
def has_lemmas(language: str) -> bool:
    """Return whether a language has a dictionary of lemmas."""
    module = "simplemma.strategies.dictionaries.dictionary_factory"
    found = require(module, extra="learn", purpose="finding the lemmas of words")
    return language in found.SUPPORTED_LANGUAGES


def count_known(words: Iterable[str], language: str) -> int:
    if not has_lemmas(language):
        return 0
    simplemma = require("simplemma", extra="learn", purpose="recognising the language of a text")
    return sum(simplemma.is_known(word, lang=language) for word in words)
