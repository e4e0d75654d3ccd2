"""The vocabulary: order, encoding, limits, and its text file."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.errors import DataError
from ontodex.features.tokens import Tokens, choose_id_type
from ontodex.features.vocabulary import UNKNOWN, Vocabulary

ROWS = st.lists(
    st.lists(st.sampled_from(["a", "b", "ç", "d e", "\u2028", "中"]), max_size=6), max_size=6
)


def test_words_stand_by_falling_frequency_then_by_character():
    tokens = Tokens.of([["b", "a", "c", "c"], ["c", "a", "b", "d"]])
    assert Vocabulary.fit(tokens).words == ("", "", "c", "a", "b", "d")
    assert Vocabulary.fit(tokens, min_count=2).words == ("", "", "c", "a", "b")
    assert Vocabulary.fit(tokens, max_size=2).words == ("", "", "c", "a")
    assert Vocabulary.fit(tokens, max_length=2).words == ("", "", "a", "b", "c")


def test_unknown_words_keep_their_place_and_an_empty_document_is_one_of_them():
    vocabulary = Vocabulary.fit(Tokens.of([["a", "b"]]))
    encoded = vocabulary.encode(Tokens.of([["a", "new", "b"], [], ["b"]]))
    assert encoded.ids.tolist() == [2, UNKNOWN, 3, UNKNOWN, 3]
    assert encoded.offsets.tolist() == [0, 3, 4, 5]
    assert encoded.lengths.tolist() == [3, 1, 1]
    cut = vocabulary.encode(Tokens.of([["a", "new", "b"], [], ["b"]]), max_length=1)
    assert [cut[row].tolist() for row in range(3)] == [[2], [UNKNOWN], [3]]


@settings(deadline=None, max_examples=50)
@given(ROWS, st.integers(0, 4))
def test_ids_lead_back_to_the_words(rows, max_length):
    tokens = Tokens.of(rows)
    vocabulary = Vocabulary.fit(tokens)
    encoded = vocabulary.encode(tokens, max_length=max_length)
    words = [[vocabulary.words[i] for i in encoded[row]] for row in range(len(encoded))]
    assert words == [row[: max_length or None] or [""] for row in rows]


@settings(deadline=None, max_examples=30)
@given(ROWS)
def test_the_text_file_gives_the_vocabulary_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.txt"
    vocabulary = Vocabulary.fit(Tokens.of(rows))
    vocabulary.save(path)
    assert Vocabulary.load(path).words == vocabulary.words
    assert Vocabulary.load(path).words == vocabulary.words


def test_line_i_of_the_file_is_the_word_with_id_i_plus_one(tmp_path):
    Vocabulary(("", "", "first", "second")).save(tmp_path / "words.txt")
    lines = (tmp_path / "words.txt").read_text().splitlines()
    assert lines == ["first", "second"]
    assert Vocabulary.load(tmp_path / "words.txt").id_of == {"first": 2, "second": 3}


def test_a_word_with_a_line_end_is_never_written(tmp_path):
    with pytest.raises(DataError, match="line end"):
        Vocabulary(("", "", "two\nlines")).save(tmp_path / "words.txt")
    assert not (tmp_path / "words.txt").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\na\n", "twice"),
        (b"a\n\nb\n", "non-empty"),
        (b"a\nb", "cut off"),
        (b"\xff\xfe\n", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_damaged_files_are_refused(content, message, tmp_path):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        Vocabulary.load(path)


def test_ids_are_as_narrow_as_the_vocabulary_allows():
    assert choose_id_type(2**16) is np.uint16
    assert choose_id_type(2**16 + 1) is np.uint32
    big = Tokens.of([[str(i) for i in range(2**16)]])
    assert big.ids.dtype == np.uint16
    assert Vocabulary.fit(big).encode(big).ids.dtype == np.uint32  # two more ids are in use


def test_a_prepared_corpus_refuses_settings_that_need_more():
    tokens = Tokens(("a",), np.zeros(4, np.uint16), np.array([0, 2, 4]), min_count=3, max_length=2)
    with pytest.raises(DataError, match="min_count = 2, but this corpus was prepared without"):
        Vocabulary.fit(tokens, min_count=2, max_length=2)
    with pytest.raises(DataError, match="the settings need the first 5 tokens"):
        Vocabulary.fit(tokens, min_count=3, max_length=5)
    with pytest.raises(DataError, match="the settings need whole documents") as error:
        Vocabulary(("", "", "a")).encode(tokens)
    assert error.value.hint == "set max_length to at most 2, or prepare the corpus again"
    assert Vocabulary.fit(tokens, min_count=3, max_length=2).words == ("", "", "a")
