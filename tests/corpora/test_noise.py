"""Label noise: the rates that were asked for, never in a document that is not trained on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from ontodex.corpora.noise import corrupt, corrupt_corpus
from ontodex.errors import ConfigError, DataError
from ontodex.types import Corpus, Doc, LabelSpace


def gold(n_docs: int = 400, n_labels: int = 50, density: float = 0.1, seed: int = 1) -> csr_array:
    found = random_array((n_docs, n_labels), density=density, rng=np.random.default_rng(seed))
    return csr_array((found.toarray() > 0).astype(np.int8))


def bits(matrix: csr_array) -> np.ndarray:
    assert set(np.unique(matrix.data)) <= {1}
    return matrix.toarray().astype(bool)


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_missing_drops_labels_at_the_rate_and_adds_none(rate):
    before, after = bits(gold()), bits(corrupt(gold(), missing=rate))
    assert not (after & ~before).any()
    assert (before & ~after).sum() / before.sum() == pytest.approx(rate, abs=0.03)


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_invalid_drops_as_much_and_adds_as_many_false_labels(rate):
    before, after = bits(gold()), bits(corrupt(gold(), invalid=rate))
    assert (before & ~after).sum() / before.sum() == pytest.approx(rate, abs=0.03)
    assert (after & ~before).sum() / before.sum() == pytest.approx(rate, abs=0.03)
    assert not after[~before.any(axis=1)].any(), "a document without labels gets no false ones"


def test_false_labels_are_drawn_from_all_labels_alike():
    one = csr_array(np.tile(np.eye(1, 5, 2, dtype=np.int8), (4000, 1)))
    added = bits(corrupt(one, invalid=1.0)).sum(axis=0)
    assert added[2] == 0
    np.testing.assert_allclose(added[[0, 1, 3, 4]] / 1000, 1, atol=0.1)


def test_flip_turns_every_bit_with_the_same_probability():
    before, after = bits(gold(density=0.3)), bits(corrupt(gold(density=0.3), flip=0.25))
    turned = before ^ after
    assert turned[before].mean() == pytest.approx(0.25, abs=0.02)
    assert turned[~before].mean() == pytest.approx(0.25, abs=0.02)


def test_flip_is_refused_where_it_would_drown_the_labels():
    with pytest.raises(DataError, match="would be false"):
        corrupt(csr_array((100_000, 30_000), dtype=np.int8), flip=0.1)


@settings(deadline=None, max_examples=25)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 5), st.sampled_from(["missing", "invalid"]))
def test_more_noise_of_one_seed_holds_the_lesser_noise(one, two, seed, noise):
    few, many = sorted((one, two))
    before = bits(gold(30, 12))
    less, more = (bits(corrupt(gold(30, 12), **{noise: r}, seed=seed)) for r in (few, many))
    assert not ((before ^ less) & ~(before ^ more)).any()


def test_the_seed_decides_and_rate_0_changes_nothing():
    np.testing.assert_array_equal(bits(corrupt(gold(), invalid=0.0)), bits(gold()))
    same = [bits(corrupt(gold(), invalid=0.3, seed=s)) for s in (4, 4, 5)]
    np.testing.assert_array_equal(same[0], same[1])
    assert (same[0] != same[2]).any()


@pytest.mark.parametrize("rates", [{"missing": 1.2}, {"flip": -0.1}, {"missing": 0.1, "flip": 0.1}])
def test_a_rate_that_makes_no_sense_is_refused(rates):
    with pytest.raises(ConfigError, match="noise"):
        corrupt(gold(), **rates)


def corpus() -> Corpus:
    return Corpus.of(
        Doc(str(i), {"title": f"word{i}"}, labels=tuple(f"l{(i + j) % 7}" for j in range(i % 4)))
        for i in range(200)
    )


def test_a_corpus_keeps_its_documents_and_gets_other_labels_and_another_key():
    noisy = corrupt_corpus(corpus(), "invalid", 0.5)
    assert noisy.ids == corpus().ids
    assert [doc.text for doc in noisy] == [doc.text for doc in corpus()]
    assert noisy.key != corpus().key
    labels = LabelSpace.of(corpus())
    expected = corrupt(labels.gold(corpus()), invalid=0.5)
    np.testing.assert_array_equal(labels.gold(noisy).toarray(), expected.toarray())


def test_chosen_documents_keep_their_noisy_labels(tmp_path):
    whole = corrupt_corpus(Corpus.write(corpus(), tmp_path / "corpus"), "missing", 0.5)
    some = whole.select([3, 150, 199])
    assert [doc.labels for doc in some] == [whole[row].labels for row in (3, 150, 199)]
    assert whole.whole.key == corpus().key, "what was prepared for the documents is found by this"
    assert list(whole.whole.labels()) == list(corpus().labels())


def test_noisy_training_documents_joined_by_clean_ones_stay_noisy(tmp_path):
    whole = Corpus.write(corpus(), tmp_path / "corpus")
    train, dev = whole.select(np.arange(150)), whole.select(np.arange(150, 200))
    noisy = corrupt_corpus(train, "missing", 0.9)
    joined = noisy.join(dev)
    assert list(joined.labels()) == [*noisy.labels(), *dev.labels()]
