"""The guess of the languages of a corpus, from sentences and from short titles."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ontodex.features import corpus_languages
from ontodex.features.corpus_languages import LanguageGuess, guess_languages
from ontodex.features.languages import STOP_WORDS, find_words, guess_language

GERMAN = "Die Fische sind in den Fluss zurückgekehrt, weil das Wasser wieder sauber ist."
ENGLISH = "The fish in this river have come back because the water is clean again."
FINNISH = "Kalat ovat palanneet jokeen, koska vesi on taas puhdasta, ja niitä on nyt enemmän."


def _read_titles() -> dict[str, list[str]]:
    lines = Path(__file__).with_name("short_titles.tsv").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines)
    grouped = itertools.groupby(pairs, key=lambda pair: pair[0])
    return {language: [title for _, title in group] for language, group in grouped}


TITLES = _read_titles()
FEW = {  # titles without a stop word of their language
    language: [
        title
        for title in titles
        if not {word.lower() for word in find_words(title)} & STOP_WORDS[language]
    ]
    for language, titles in TITLES.items()
}


@pytest.fixture
def dictionaries(monkeypatch) -> set[str]:
    """Dictionaries that have the words of the titles; returns the languages that were asked."""
    known = {language: set().union(*map(find_words, titles)) for language, titles in TITLES.items()}
    asked = set[str]()

    def count(words: list[str], language: str) -> int:
        asked.add(language)
        return len({*words} & known.get(language, set()))

    monkeypatch.setattr(corpus_languages, "count_known", count)
    return asked


def test_the_languages_of_a_corpus_are_those_of_a_twentieth_of_it_or_more():
    texts = [GERMAN] * 60 + [ENGLISH] * 38 + [FINNISH] * 2 + [""] * 50
    assert guess_languages(texts) == LanguageGuess(("de", "en"), is_sure=True)
    assert guess_languages(["", "17"]) == LanguageGuess((), is_sure=False)


def test_a_word_of_one_language_that_is_grammar_in_another_adds_no_language():
    # "hauen" is Finnish for "of the pike" and Basque for "of this".
    texts = [FINNISH] * 50 + ["Hauen kutu ajoittuu kevääseen."] * 10
    assert guess_language(texts[-1]) == "eu"
    assert guess_languages(texts).languages == ("fi",)


@pytest.mark.parametrize("language", sorted({*TITLES} - {"fi"}))
@pytest.mark.parametrize("expected", [(), ("fi", "sv", "en"), ("de",)])
def test_twenty_titles_are_enough_whatever_the_vocabulary(language, expected):
    assert guess_languages(TITLES[language], expected) == LanguageGuess((language,), is_sure=True)


@pytest.mark.parametrize("language", TITLES)
def test_dictionaries_of_the_vocabulary_decide_where_titles_have_no_stop_word(
    language, dictionaries
):
    guess = guess_languages(FEW[language], ("en", "de", language))
    assert guess == LanguageGuess((language,), is_sure=True)
    assert {"en", "de", language} <= dictionaries


def test_titles_in_no_language_of_the_vocabulary_leave_the_guess_unsure(dictionaries):
    assert not guess_languages(FEW["fi"], ("en", "de")).is_sure
    assert not guess_languages(["Oncorhynchus mykiss"] * 9, ("en", "fi")).is_sure


def test_texts_with_function_words_read_no_dictionary(dictionaries):
    guess_languages([GERMAN] * 10, ("de", "en"))
    assert not dictionaries


def test_a_vocabulary_does_not_outvote_the_texts():
    assert guess_languages([FINNISH] * 5, ("en", "de")).languages == ("fi",)


@pytest.mark.slow
@pytest.mark.parametrize("language", TITLES)
def test_the_real_dictionaries_know_the_titles(language):
    pytest.importorskip("simplemma")
    for titles in (TITLES[language], FEW[language]):
        assert guess_languages(titles, ("en", language)) == LanguageGuess((language,), is_sure=True)
