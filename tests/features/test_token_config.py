from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ontodex.features.phrases import PhraseConfig
from ontodex.features.token_config import TokenConfig, read_in_language, set_languages
from ontodex.features.tokens import (
    find_doc_spans,
    tokenise,
    tokenise_corpus,
    tokenise_texts,
    tokens_recipe,
)
from ontodex.types import Corpus, Doc

GERMAN = "Die Häuser sind im Tal, und der Bach war die Grenze."
ENGLISH = "The houses are in the valley, and the river was the border."
OWN = TokenConfig(stop_words="own", lemmas="own", languages=("de", "en"))

pytest.importorskip("simplemma")


def test_each_document_is_read_in_its_own_language():
    tokens = tokenise_texts([GERMAN, ENGLISH, GERMAN], OWN)
    assert tokens[0] == ["haus", "tal", "bach", "grenze"]
    assert tokens[1] == ["houses", "valley", "river", "border"]  # English words are kept
    assert tokens[2] == tokens[0]
    assert tokens.words == (*tokens[0], *tokens[1])  # numbered in order of appearance


def test_one_document_or_many_give_the_same_tokens():
    corpus = Corpus.of(Doc(str(i), {"text": text}) for i, text in enumerate([GERMAN, ENGLISH]))
    tokens = tokenise_corpus(corpus, OWN)
    for row, doc in enumerate(corpus):
        assert tokens[row] == tokenise(doc.text, OWN)
        assert tokens[row] == [token for _, _, token in find_doc_spans(doc, OWN)]
        alone = tokenise_corpus(corpus.select([row]), OWN)
        assert tokens.take(np.array([row])).words == alone.words


def test_a_title_is_read_in_the_language_of_the_whole_document():
    doc = Doc("1", {"title": "Rats", "body": "Die Sitzung des Stadtrats war am Abend im Rathaus."})
    assert find_doc_spans(doc, OWN)[0] == (0, 4, "rat")  # German: of the council


def test_own_without_languages_reads_words_as_they_are():
    plain = TokenConfig(stop_words="own", lemmas="own")
    assert tokenise("The houses", plain) == ["the", "houses"]


def test_one_language_in_place_of_own_shares_the_cache_with_its_name():
    own = TokenConfig(lemmas="own", languages=("de",))
    assert tokens_recipe(own) == tokens_recipe(TokenConfig(lemmas="de"))
    unused = TokenConfig(languages=("en",))
    assert tokens_recipe(unused) == tokens_recipe(TokenConfig())
    assert tokens_recipe(OWN)["languages"] == ("de", "en")


def test_a_language_without_lemmas_or_stop_words_is_read_without_them():
    reading = read_in_language(OWN, "vi")
    assert (reading.lemmas, bool(reading.stop_words)) == ("", True)
    assert read_in_language(OWN, "ko") == TokenConfig()


def test_unknown_codes_are_refused():
    with pytest.raises(ValueError, match="codes such as en or fi, not 'Finnish'"):
        TokenConfig(languages=("Finnish",))


def test_languages_reach_the_settings_that_use_them():
    @dataclass(frozen=True)
    class Both(PhraseConfig, TokenConfig):
        pass

    found = set_languages(Both(), ("fi", "en"))
    assert (found.languages, found.phrase_language) == (("fi", "en"), "fi")
    assert set_languages(Both(languages=("sv",)), ("fi",)).languages == ("sv",)
    assert set_languages(PhraseConfig(), ()) == PhraseConfig()
