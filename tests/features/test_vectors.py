"""Vector files in every layout, damaged ones, alignment, and training that repeats its bits."""

import gzip
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.errors import DataError
from ontodex.features.tokens import Tokens
from ontodex.features.vectors import (
    Vectors,
    make_random_vectors,
    read_aligned_vectors,
    read_vectors,
    train_vectors,
    write_vectors,
)
from ontodex.features.vocabulary import Vocabulary

WORDS = ("the", "été", "new york")
NUMBERS = np.array([[0.5, -1.0, 2e-3], [1.0, 0.0, -0.25], [3.0, 4.0, 5.0]], dtype=np.float32)


def glove():
    lines = zip(WORDS, NUMBERS, strict=True)
    return "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in lines).encode()


def binary(end=b"\n"):
    records = zip(WORDS[:2], NUMBERS, strict=False)
    return b"2 3\n" + b"".join(w.encode() + b" " + struct.pack("<3f", *v) + end for w, v in records)


LAYOUTS = {
    "GloVe": glove(),
    "word2vec text": b"3 3\n" + glove(),
    "spaces at line ends": b"3 3 \n" + glove().replace(b"\n", b" \n"),
    "packed": gzip.compress(b"3 3\n" + glove()),
    "word2vec binary": binary(),
    "word2vec binary without line ends": binary(b""),
    "packed binary": gzip.compress(binary()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_vectors(layout, tmp_path):
    (tmp_path / "vectors").write_bytes(LAYOUTS[layout])
    vectors = read_vectors(tmp_path / "vectors")
    n = 2 if "binary" in layout else 3
    assert vectors.words == WORDS[:n]
    np.testing.assert_array_equal(vectors.array, NUMBERS[:n])
    assert read_vectors(tmp_path / "vectors", {"été"}).words == ("été",)


def test_a_folder_of_vectors_is_read_back_in_half_precision(tmp_path):
    write_vectors(tmp_path / "vectors", Vectors(WORDS, NUMBERS))
    vectors = read_vectors(tmp_path / "vectors")
    assert vectors.words == WORDS
    np.testing.assert_allclose(vectors.array, NUMBERS, rtol=1e-3)
    assert vectors.array.dtype == np.float32


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "vectors of -1 numbers"),
        (b"5 99999999\nx 1\n", "vectors of 99,999,999 numbers"),
        (b"\x00\xff" * 50, "vectors of 0 numbers"),
        (b"2 2\na 1 2\n", "the first line says 2 vectors, but the file has 1"),
        (b"2 2\na 1 2\nb 1 x\n", ":3: not a number"),
        (b"a 1 2\nb 1\n", ":2: a word and 2 numbers are expected, not 2 fields"),
        (b"2 2\na 1 nan\nb 1 1\n", "the first line says|finite"),
        (binary()[:-8], "the first line says 2 vectors, but the file has 1"),
        (binary().replace(b"2 3", b"9 3"), "the first line says 9 vectors, but the file has 2"),
        (b"a " + b"1" * 2**21, "over 1,048,576 bytes|vectors of"),
        (b"3 3\n" + b"x" * 2**21, "over 1,048,576 bytes"),
    ],
)
def test_damaged_files_are_refused_with_the_place(content, message, tmp_path):
    (tmp_path / "vectors.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "vectors.txt")


def test_the_first_of_a_word_that_is_there_twice_counts(tmp_path):
    (tmp_path / "vectors.txt").write_bytes(b"a 1 2\na 3 4\n")
    np.testing.assert_array_equal(read_vectors(tmp_path / "vectors.txt").array, [[1, 2]])


def test_alignment_puts_vectors_at_the_words_and_small_numbers_elsewhere(tmp_path):
    (tmp_path / "vectors.txt").write_bytes(b"b 9 9 9\nz 7 7 7\n")
    vocabulary = Vocabulary(("", "", "a", "b"))
    array, found = read_aligned_vectors(tmp_path / "vectors.txt", vocabulary, seed=1, scale=0.2)
    assert found.tolist() == [False, False, False, True]
    np.testing.assert_array_equal(array[0], 0)
    np.testing.assert_array_equal(array[3], 9)
    np.testing.assert_array_equal(array[2], make_random_vectors(["a"], 3, seed=1, scale=0.2)[0])
    assert 0 < np.abs(array[1:3]).max() <= 0.2


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), unique=True), st.integers(0, 9))
def test_the_vector_of_an_unknown_word_depends_on_the_word_alone(words, seed):
    together = make_random_vectors(words, 4, seed=seed)
    for row, word in enumerate(words):
        np.testing.assert_array_equal(make_random_vectors([word], 4, seed=seed)[0], together[row])
    assert np.all(np.abs(together) <= 0.1)
    assert len(np.unique(together, axis=0)) == len(words)


def test_the_vector_of_an_unknown_word_never_changes():
    expected = [0.05126533, 0.071059786]  # SHAKE-128 of "0\\nword", two little-endian numbers
    np.testing.assert_array_equal(make_random_vectors(["word"], 2)[0], np.float32(expected))


def test_words_of_the_same_company_get_near_vectors():
    pytest.importorskip("gensim")
    random = np.random.default_rng(0)
    groups = [[f"{group}{i}" for i in range(10)] for group in "ab"]
    rows = [list(random.choice(groups[i % 2], 12)) for i in range(600)]
    vectors = train_vectors(rows, size=16, seed=1, epochs=10, subsample=0)
    unit = vectors.array / np.linalg.norm(vectors.array, axis=1, keepdims=True)
    is_a = np.array([word.startswith("a") for word in vectors.words])
    alike, unlike = unit[is_a] @ unit[is_a].T, unit[is_a] @ unit[~is_a].T
    assert alike.mean() > unlike.mean() + 0.3


def test_training_on_tokens_leaves_out_the_words_that_were_not_kept():
    pytest.importorskip("gensim")
    tokens = Tokens.of([["a", "", "b"], ["b", "a"]])
    assert set(train_vectors(tokens, size=4).words) == {"a", "b"}
    with pytest.raises(DataError, match="no words to train vectors on"):
        train_vectors(Tokens.of([[], [""]]), size=4)


PROGRAM = """
import hashlib
from ontodex.features.vectors import train_vectors
rows = [[f"w{(i * j) % 23}" for j in range(12)] for i in range(60)]
vectors = train_vectors(rows, size=8, seed=5)
print(vectors.words, hashlib.sha256(vectors.array.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_training_repeats_its_bits_in_any_process():
    pytest.importorskip("gensim")
    answers = {
        subprocess.check_output(
            [sys.executable, "-c", PROGRAM], env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("0", "99")
    }
    assert len(answers) == 1


@pytest.mark.data
def test_the_real_file_has_vectors_for_almost_every_common_word(real_data):
    path = real_data / "vectors" / "wink-100d.subset.txt.gz"
    vocabulary = Vocabulary(("", "", "commission", "regulation", "patients", "qqxzv"))
    array, found = read_aligned_vectors(path, vocabulary)
    assert array.shape == (6, 100)
    assert found.tolist() == [False, False, True, True, True, False]
    assert len(read_vectors(path).words) == 56_168
