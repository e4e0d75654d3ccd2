"""Settings of the tokeniser, and the reading of each document in its own language.

A setting `own` stands for the language of the document. A reading is the settings with a language
in its place. In a corpus of several languages each document has the reading of its language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from ontodex.config import RESOLVED, check_range
from ontodex.features.cache import pick_settings
from ontodex.features.languages import (
    LANGUAGES,
    OWN,
    STOP_WORDS,
    choose_language,
    has_lemmas,
    load_lemmatiser,
)

# English words have so few forms that their lemmas lose more than they gain
# (docs/decisions/0018-one-language-setting.md). `lemmas = "en"` takes them all the same.
FEW_FORMS = frozenset({"en"})


@dataclass(frozen=True)
class TokenConfig:
    """Settings of the tokeniser. A system's settings inherit these."""

    fields: tuple[str, ...] = ()  # text fields to read, in this order; none = all
    punctuation: bool = False  # keep each punctuation mark as a token
    # drop those of a language (en, de, fi ...), or of each document's own; enm, grc, gv, ko and se
    # have no list
    stop_words: str = ""
    lemmas: str = ""  # replace words by their lemmas (simplemma): a language, or own
    title_weight: int = 1  # times that the first of several fields is read
    # Of the documents, for `own`. [train] languages or a guess decides; no user sets it here.
    languages: tuple[str, ...] = field(default=(), metadata=RESOLVED)

    lower: ClassVar[bool] = True  # convert to lower case
    numbers: ClassVar[bool] = True  # keep tokens that are only digits

    def __post_init__(self) -> None:
        check_range(self, 1, 100, "title_weight")
        if self.stop_words not in ("", OWN, *STOP_WORDS):
            known = ", ".join((OWN, *STOP_WORDS))
            raise ValueError(f"stop_words is one of {known}, not {self.stop_words!r}")
        for language in self.languages:
            if language not in LANGUAGES:
                raise ValueError(f"languages takes codes such as en or fi, not {language!r}")


@dataclass(frozen=True)
class CasedTokenConfig(TokenConfig):
    """Settings of a tokeniser that keeps capitals."""

    lower: ClassVar[bool] = False


def describe_tokens(config: TokenConfig) -> dict[str, Any]:
    """Return everything that shapes the tokens, constants too, as JSON values."""
    constants = {"lower": config.lower, "numbers": config.numbers}
    return {**constants, **pick_settings(TokenConfig, config)}


def read_in_language(config: TokenConfig, language: str) -> TokenConfig:
    """Return the settings for documents of one language: it stands in place of `own`.

    A language without stop words or without lemmas is read without them, and English words are
    kept as they are.
    """
    settings = pick_settings(TokenConfig, config)
    if config.stop_words == OWN:
        settings["stop_words"] = language if language in STOP_WORDS else ""
    if config.lemmas == OWN:
        has_own = language and language not in FEW_FORMS and has_lemmas(language)
        settings["lemmas"] = language if has_own else ""
    reading = TokenConfig if config.lower else CasedTokenConfig
    return reading(**settings | {"languages": ()})


def list_readings(config: TokenConfig) -> list[TokenConfig]:
    """Return the settings for the documents of each language; one where languages do not matter."""
    if OWN not in (config.stop_words, config.lemmas):
        return [read_in_language(config, "")]
    return [read_in_language(config, language) for language in config.languages or ("",)]


def choose_reading(text: str, config: TokenConfig, readings: Sequence[TokenConfig]) -> int:
    """Return the number of the reading (of `list_readings`) for a text."""
    if len(readings) == 1:
        return 0
    return config.languages.index(choose_language(text, config.languages))


def set_languages(config: Any, languages: tuple[str, ...]) -> Any:
    """Return the settings of a system with the languages of its documents, where it has a use.

    Languages that the settings name themselves are kept.
    """
    names = {item.name for item in fields(config)}
    changes: dict[str, Any] = {}
    if "languages" in names and not config.languages:
        changes["languages"] = languages
    if "phrase_language" in names and languages and languages[0] in STOP_WORDS:
        changes["phrase_language"] = languages[0]
    return replace(config, **changes)


def check_lemmas(config: TokenConfig) -> None:
    """Refuse, before documents are read, a language of lemmas that has no dictionary."""
    for reading in list_readings(config):
        if reading.lemmas:
            load_lemmatiser(reading.lemmas)
