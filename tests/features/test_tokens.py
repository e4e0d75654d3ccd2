"""Text into tokens: what counts as a word, offsets, corpora, hostile text."""

import os
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.errors import ConfigError, DataError
from ontodex.features import cache
from ontodex.features import tokens as tokens_module
from ontodex.features.token_config import CasedTokenConfig, TokenConfig, list_readings
from ontodex.features.tokens import (
    MAX_LETTERS,
    Tokens,
    check_fields,
    find_doc_spans,
    find_spans,
    make_tokeniser,
    tokenise,
    tokenise_corpus,
    tokens_recipe,
)
from ontodex.types import Corpus, Doc

SHAPES = st.builds(
    lambda cls, **settings: cls(**settings),
    st.sampled_from([TokenConfig, CasedTokenConfig]),
    punctuation=st.booleans(),
    stop_words=st.sampled_from(["", "en", "fr"]),
)
# Hypothesis' whole alphabet, spiced with what breaks tokenizers.
TEXTS = st.text(
    st.one_of(
        st.characters(), st.sampled_from("aé\u0301\u00ad\u200d中ひ_- \n½ﷺİ'\u20190٣\x00\u2028")
    ),
    max_size=80,
)


def corpus_of(*texts):
    return Corpus.of(Doc(str(i), {"body": text}) for i, text in enumerate(texts))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The Cat, the HAT!", ["the", "cat", "the", "hat"]),
        ("don't snake_case x-ray", ["don", "t", "snake", "case", "x", "ray"]),
        ("3.14 and 2nd", ["3", "14", "and", "2nd"]),
        ("cafe\u0301 caf\u00e9", ["caf\u00e9", "caf\u00e9"]),
        ("in\u00adfor\u00admation \ufb01ne", ["information", "fine"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("中文 ひら カタカナ", ["中", "文", "ひ", "ら", "カタカナ"]),
        ("Ünïcödé МИР Ωμέγα", ["ünïcödé", "мир", "ωμέγα"]),
        (" \n\t", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_in_any_script(text, tokens):
    assert tokenise(text, TokenConfig()) == tokens


def test_settings_decide_what_is_kept():
    text = "The 12 Ideas, of 1960s"
    assert tokenise(text, CasedTokenConfig()) == ["The", "12", "Ideas", "of", "1960s"]
    assert tokenise(text, TokenConfig(stop_words="en")) == ["12", "ideas", "1960s"]
    assert tokenise("a, b_c.", TokenConfig(punctuation=True)) == ["a", ",", "b", "_", "c", "."]


def test_lemmas_are_dictionary_forms():
    pytest.importorskip("simplemma")
    config = TokenConfig(lemmas="en", stop_words="en")
    assert tokenise("The children were running", config) == ["child", "run"]


def test_languages_that_are_not_there_are_named():
    with pytest.raises(ValueError, match=r"stop_words is one of own, en, de, .* not 'xx'"):
        TokenConfig(stop_words="xx")
    pytest.importorskip("simplemma")
    with pytest.raises(ConfigError, match="no dictionary for the language 'xx'"):
        tokenise("text", TokenConfig(lemmas="xx"))


@settings(deadline=None, max_examples=50)
@given(TEXTS, SHAPES)
def test_spans_hold_the_same_tokens_and_lie_in_order_in_the_text(text, config):
    found = find_spans(text, config)
    assert [token for _, _, token in found] == tokenise(text, config)
    edges = [edge for start, end, _ in found for edge in (start, end)]
    assert edges == sorted(edges)
    assert all(0 <= start < end <= len(text) for start, end, _ in found)
    for start, end, token in found:  # a span on its own says the same again
        assert token in tokenise(text[start:end], config)


@settings(deadline=None, max_examples=50)
@given(TEXTS, SHAPES)
def test_tokens_are_short_and_hold_no_white_space(text, config):
    for token in tokenise(text, config):
        assert token
        assert len(token) <= 2 * MAX_LETTERS  # lower case may make a letter longer
        assert not any(letter.isspace() for letter in token)


def test_no_mark_or_invisible_joiner_of_unicode_ends_a_word():
    letters = map(chr, range(sys.maxunicode + 1))
    inside = [
        c for c in letters if unicodedata.category(c)[0] == "M" or c in "\u00ad\u200c\u200d\u2060"
    ]
    assert len(inside) > 2_000
    for letter in inside:
        assert len(tokenise(f"x{letter}y", TokenConfig())) == 1, hex(ord(letter))


@pytest.mark.parametrize("piece", ["e\u0301", "\u0301", "中", "_", "\u00ad", "a\u200d"])
def test_long_runs_of_hostile_characters_end_quickly_in_short_tokens(piece):
    found = find_spans(piece * 200_000, TokenConfig())
    assert all(len(token) <= MAX_LETTERS for _, _, token in found)


@settings(deadline=None, max_examples=30)
@given(st.lists(TEXTS.map(lambda t: t.encode(errors="ignore").decode()), max_size=6), SHAPES)
def test_a_tokenised_corpus_holds_the_tokens_of_each_text(texts, config):
    tokens = tokenise_corpus(corpus_of(*texts), config)
    assert list(tokens) == [tokenise(text, config) for text in texts]
    assert len(set(tokens.words)) == len(tokens.words)


def test_words_are_numbered_as_they_first_appear():
    tokens = tokenise_corpus(corpus_of("b a b", "", "c a"), TokenConfig())
    assert tokens.words == ("b", "a", "c")
    assert tokens.ids.tolist() == [0, 1, 0, 2, 1]
    assert tokens.offsets.tolist() == [0, 3, 3, 5]
    assert tokens.ids.dtype == np.uint16
    assert tokens.count_words().tolist() == [2, 2, 1]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), min_size=1, max_size=8), st.data())
def test_taking_rows_or_cutting_gives_the_bits_of_tokenising_just_that(rows, data):
    tokens = Tokens.of(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True).map(sorted))
    length = data.draw(st.integers(1, 6))
    for ours, fresh in [
        (tokens.take(np.array(chosen, dtype=np.int64)), Tokens.of([rows[i] for i in chosen])),
        (tokens.cut(length), Tokens.of([row[:length] for row in rows])),
    ]:
        assert ours.words == fresh.words
        np.testing.assert_array_equal(ours.ids, fresh.ids)
        np.testing.assert_array_equal(ours.offsets, fresh.offsets)


def test_fields_are_chosen_and_ordered_by_the_setting():
    doc = Doc("1", {"title": "Big Title", "abstract": "small print", "body": "unread"})
    config = TokenConfig(fields=("abstract", "title"))
    corpus = Corpus.of([doc, Doc("2", {"title": "alone"})])
    assert list(tokenise_corpus(corpus, config)) == [["small", "print", "big", "title"], ["alone"]]
    found = find_doc_spans(doc, config)
    assert [doc.text[start:end] for start, end, _ in found] == ["small", "print", "Big", "Title"]


def test_a_mistyped_field_is_named_with_the_nearest_right_one():
    with pytest.raises(ConfigError, match="no document has the text field 'boddy'; did you mean"):
        check_fields(corpus_of("text"), TokenConfig(fields=("boddy",)))
    check_fields(corpus_of("text"), TokenConfig(fields=("absent", "body")))


def test_token_arrays_that_do_not_fit_together_are_refused():
    with pytest.raises(DataError, match="offsets must rise"):
        Tokens(("a",), np.zeros(2, np.uint16), np.array([0, 1]))
    with pytest.raises(DataError, match="past the 1 words"):
        Tokens(("a",), np.array([1], np.uint16), np.array([0, 1]))


def test_a_corpus_on_disk_is_tokenised_once_and_selections_are_cut_from_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "WORTH_WRITING", 1)
    docs = [Doc(str(i), {"body": f"word{i} shared Word{i % 3}"}) for i in range(10)]
    corpus = Corpus.write(docs, tmp_path / "corpus")
    config = TokenConfig()
    first = tokenise_corpus(corpus, config)
    folder = cache.locate_parts(corpus, tokens_recipe(config))
    stamp = (folder / "ids.npy").stat().st_mtime_ns

    again = tokenise_corpus(Corpus.open(tmp_path / "corpus"), config)
    assert isinstance(again.ids, np.memmap)
    assert (folder / "ids.npy").stat().st_mtime_ns == stamp
    assert again.words == first.words
    np.testing.assert_array_equal(again.ids, first.ids)

    some = tokenise_corpus(corpus.select([2, 5]), config)
    fresh = tokenise_corpus(Corpus.of([docs[2], docs[5]]), config)
    assert some.words == fresh.words
    np.testing.assert_array_equal(some.ids, fresh.ids)
    assert len(list((tmp_path / "corpus" / "features").iterdir())) == 1  # nothing kept for those


PROGRAM = """
import hashlib
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.phrases import PhraseConfig, Phrases
from ontodex.features.tokens import tokenise_corpus
from ontodex.features.vectors import make_random_vectors
from ontodex.features.vocabulary import Vocabulary
from ontodex.types import Corpus, Doc
texts = [f"Growth of {a} crops in the {b} region, by {a} farmers" for a in "wheat rye oat".split()
         for b in "north south west".split()]
corpus = Corpus.of(Doc(str(i), {"body": t}) for i, t in enumerate(texts))
config = MatrixConfig(ngrams=2, min_df=1)
tokens = tokenise_corpus(corpus, config)
matrix = MatrixFeatures(config).fit(corpus)
words = Vocabulary.fit(tokens)
digest = hashlib.sha256()
for array in (tokens.ids, matrix.data, matrix.indices, make_random_vectors(words.words, 8, seed=3)):
    digest.update(array.tobytes())
phrases = Phrases.fit(corpus, PhraseConfig())
print(digest.hexdigest(), words.words, phrases.extract(texts[4]))
"""


def test_the_bits_do_not_depend_on_the_process():
    answers = set()
    for seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        answers.add(subprocess.check_output([sys.executable, "-c", PROGRAM], env=environment))
    assert len(answers) == 1


def test_the_settings_of_many_texts_are_read_once(monkeypatch):
    calls: list[TokenConfig] = []

    def count(config: TokenConfig) -> list[TokenConfig]:
        calls.append(config)
        return list_readings(config)

    monkeypatch.setattr(tokens_module, "list_readings", count)
    tokenise_text = make_tokeniser(TokenConfig(stop_words="own", languages=("en", "de")))
    assert tokenise_text("the lake of the year") == ["lake", "year"]
    assert tokenise_text("der See und die Fische") == ["see", "fische"]
    assert len(calls) == 1
