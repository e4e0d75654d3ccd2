"""The languages of a run: guessed from its documents or given, and what they decide.

They decide lemmas, stop words, the names that `lexical` matches, and the language in which names
are shown. A text in another language gets a warning.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ontodex.errors import RunError
from ontodex.features.corpus_languages import guess_languages
from ontodex.features.languages import (
    LANGUAGES,
    STOP_WORDS,
    find_foreign_language,
    find_languages,
    list_names,
    match_tag,
    name_language,
    to_code,
)
from ontodex.types import Corpus, Ontology

logger = logging.getLogger(__name__)

_GUESS_DOCS = 3_000  # documents, evenly spaced, from which the languages of a corpus are guessed


def find_corpus_languages(
    asked: Sequence[str], corpus: Corpus, ontology: Ontology | None = None
) -> tuple[str, ...]:
    """Return the languages of a training corpus, as given or else guessed, and log them.

    The languages of the ontology are the likeliest. Warn where the texts show too little.
    """
    if asked:
        languages = find_languages(asked)
        logger.info("language: %s", list_names(languages) if languages else "none, as asked for")
        _warn_bare_languages(languages)
        return languages
    if not corpus.has_text:
        return _read_prepared_languages(corpus)
    rows = np.unique(np.linspace(0, len(corpus) - 1, _GUESS_DOCS).astype(np.int64))
    guess = guess_languages(corpus.select(rows).texts(), list_known_languages(ontology))
    names = list_names(guess.languages) if guess.languages else "not recognised"
    if guess.is_sure:
        logger.info("language: %s, guessed from the texts; --language sets it", names)
    else:
        logger.warning(
            "language: %s, because the texts show too little; give it, such as --language Finnish: "
            "it decides word forms, stop words and the names that are matched",
            f"perhaps {names}" if guess.languages else names,
        )
    return guess.languages


def _warn_bare_languages(languages: Sequence[str]) -> None:
    """Say for which languages all words are read, because no list has their stop words."""
    if bare := [language for language in languages if language not in STOP_WORDS]:
        logger.warning(
            "%s: no stop words are known, so words of grammar are read like others",
            list_names(bare),
        )


def _read_prepared_languages(corpus: Corpus) -> tuple[str, ...]:
    """Return the languages that `ontodex prepare` recorded beside a corpus without text."""
    from ontodex.features.prepare import read_settings

    languages = find_languages(read_settings(corpus).get("languages", ()))
    if languages:
        logger.info("language: %s, as the corpus was prepared", list_names(languages))
    return languages


def list_known_languages(ontology: Ontology | None) -> list[str]:
    """Return the languages of a vocabulary's names that ontodex knows, the most frequent first."""
    names = {} if ontology is None else ontology.names
    tags = sorted(names, key=lambda tag: -names[tag].n_values)
    return list(dict.fromkeys(code for code in map(to_code, tags) if code in LANGUAGES))


def prefer_languages(ontology: Ontology, languages: Iterable[str]) -> Ontology:
    """Return the ontology with its names shown in the first of these languages that it has."""
    tags = (match_tag(language, ontology.names) for language in languages)
    return dataclasses.replace(ontology, default_language=next(filter(None, tags), ""))


def get_languages(about: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the languages in the manifest of a run; none for a run of version 0.2 or earlier."""
    languages = tuple(about.get("languages", ()))
    if unknown := [language for language in languages if language not in LANGUAGES]:
        raise RunError(f"manifest.json: {unknown[0][:50]!r} is no code of a language")
    return languages


def warn_foreign(corpus: Corpus, languages: tuple[str, ...]) -> None:
    """Log the warning of `describe_foreign`."""
    if warning := describe_foreign(corpus, languages):
        logger.warning("%s", warning)


def describe_foreign(corpus: Corpus, languages: tuple[str, ...]) -> str:
    """Return a warning where documents are in a language that a run was not trained on, else ""."""
    if not languages or not corpus.has_text:
        return ""
    found = Counter(find_foreign_language(text, languages) for text in corpus.texts())
    total = found.total()
    del found[""]
    if not found:
        return ""
    (language, _), *_ = found.most_common(1)
    known = list_names(languages)
    if total == 1:
        return (
            f"the text seems to be {name_language(language)}; this run was trained on {known} "
            "documents, so do not rely on its suggestions"
        )
    return (
        f"{found.total():,} of {total:,} texts seem to be in other languages, most in "
        f"{name_language(language)}; this run was trained on {known} documents, so do not rely "
        "on its suggestions for them"
    )
