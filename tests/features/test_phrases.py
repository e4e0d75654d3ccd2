"""Keyword phrases: runs of content words, scored by hand, the same in every order of work."""

import re
from collections import Counter
from math import log

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ontodex.errors import DataError
from ontodex.features.languages import STOP_WORDS
from ontodex.features.phrases import KnownPhrases, PhraseConfig, Phrases, count_phrases
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import tokenise
from ontodex.types import Corpus, Doc


def fit_phrases(*texts, **changes):
    train = Corpus.of(Doc(str(i), {"body": text}) for i, text in enumerate(texts))
    return Phrases.fit(train, PhraseConfig(**changes))


def test_stop_words_marks_numbers_and_line_ends_separate_phrases():
    phrases = fit_phrases("")
    text = "Winter wheat in dry soils, 1980 rye yields\nSpring barley: x-ray study"
    assert sorted(phrases.extract(text)) == [
        "dry soils",
        "rye yields",
        "spring barley",
        "winter wheat",
        "x ray study",
    ]


def test_scores_by_hand():
    # "soil" stands in 2 of 3 training documents, all other words in at most one.
    phrases = fit_phrases("soil", "soil", "wheat")
    common, rare = log(4 / 3) + 1, log(4 / 2) + 1
    text = "soil of soil of soil. wheat. winter wheat"
    scores = {"soil": 3 * common, "wheat": rare, "winter wheat": 2 * rare}
    assert phrases.extract(text) == sorted(scores, key=scores.get, reverse=True)


def test_equal_scores_stand_in_the_order_of_the_text():
    assert fit_phrases("").extract("zebra; apple; mango") == ["zebra", "apple", "mango"]


def test_long_runs_come_in_pieces_and_only_the_best_are_kept():
    phrases = fit_phrases("", phrase_words=2, phrases_per_doc=2)
    assert phrases.extract("one1 two2 three3 four4 five5") == ["one1 two2", "three3 four4"]


@pytest.mark.parametrize("text", ["", "the of and", "12 13", "-", "\n", "\x00"])
def test_a_text_without_content_has_no_phrases(text):
    assert fit_phrases("word").extract(text) == []


def test_a_corpus_has_the_phrases_of_each_of_its_texts():
    texts = ["winter wheat in dry soils", "", "rye; rye; wheat"]
    phrases = fit_phrases(*texts)
    corpus = Corpus.of(Doc(str(i), {"body": text}) for i, text in enumerate(texts))
    assert list(phrases.extract_corpus(corpus)) == [phrases.extract(text) for text in texts]


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60))
@example("\u2f01")  # a symbol whose normal form is a letter: phrases read marks too
def test_phrases_are_made_of_the_words_of_the_text_and_hold_no_stop_word(text):
    for phrase in fit_phrases("a b").extract(text):
        words = phrase.split(" ")
        assert set(words) <= set(tokenise(text, TokenConfig(punctuation=True)))
        assert not set(words) & STOP_WORDS["en"]


def test_saved_frequencies_give_the_same_phrases(tmp_path):
    phrases = fit_phrases("winter wheat", "winter rye", "spring rye")
    phrases.save(tmp_path / "frequencies.txt")
    loaded = Phrases.load(tmp_path / "frequencies.txt", phrases.config)
    text = "winter rye and spring rye"
    assert loaded.extract(text) == phrases.extract(text)
    assert (loaded.n_docs, loaded.train_key) == (phrases.n_docs, phrases.train_key)
    (tmp_path / "frequencies.txt").write_text("no numbers\n")
    with pytest.raises(DataError, match="not a list of word frequencies"):
        Phrases.load(tmp_path / "frequencies.txt", phrases.config)


@pytest.mark.parametrize(
    "text", ["key\t-9\n", "key\t3\na\t-1\n", "key\t3\na\t4\n", f"key\t{10**300}\n"]
)
def test_frequencies_that_cannot_be_are_refused(text, tmp_path):
    (tmp_path / "frequencies.txt").write_text(text)
    with pytest.raises(DataError, match="not within the number of documents"):
        Phrases.load(tmp_path / "frequencies.txt", fit_phrases("a b").config)


def test_settings_are_checked():
    with pytest.raises(ValueError, match=r"phrase_language is one of en, de, .* not 'xx'"):
        PhraseConfig(phrase_language="xx")
    with pytest.raises(ValueError, match="at least 1"):
        PhraseConfig(phrase_words=0)


def test_known_phrases_are_the_longest_frequent_ones_inside_runs_of_content_words():
    """Two words or more, or a whole run of one word; never across a stop word or a full stop."""
    often = "Sickle cell anemia in the blood. Cell anemia of mice."
    corpus = Corpus.of([Doc(str(i), {"text": often}) for i in range(3)])
    found = KnownPhrases.fit_known(corpus, PhraseConfig(phrase_words=3), 3)
    assert found.known == {"sickle cell anemia", "cell anemia", "blood", "mice"}
    assert set(found.extract("Rare sickle cell anemia. Mice, blood cells of anemia")) == {
        "sickle cell anemia", "mice",
    }  # fmt: skip


def test_phrases_that_longer_ones_replace_everywhere_are_not_known():
    corpus = Corpus.of([Doc(str(i), {"text": "deep water fish"}) for i in range(4)])
    found = KnownPhrases.fit_known(corpus, PhraseConfig(phrase_words=3), 2)
    assert found.known == {"deep water fish"}


def test_counted_phrases_equal_those_of_a_slow_loop():
    random = np.random.default_rng(3)
    words = ["river", "trout", "of", "the", "deep", ".", "cold-water", "12"]
    texts = [" ".join(random.choice(words, 30)) for _ in range(20)]
    corpus = Corpus.of([Doc(str(i), {"text": text}) for i, text in enumerate(texts)])
    counts: Counter[str] = Counter()
    for text in texts:
        for part in re.split(r"\b(?:of|the|12)\b|\.", text.replace("-", " ")):
            run = part.split()
            for n in (1, 2, 3):
                for i in range(len(run) - n + 1):
                    counts[" ".join(run[i : i + n])] += n > 1 or len(run) == 1
    expected = {phrase for phrase, n in counts.items() if n >= 4}
    assert set(count_phrases(corpus, PhraseConfig(phrase_words=3), 4)) == expected
