"""Batches: every document once, no empty row, exact resume, inverse permutation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.features.batches import by_length, inference_batches, pad, training_batches
from ontodex.features.vocabulary import PAD, Encoded

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=40)


def encoded_of(lengths):
    offsets = np.cumsum([0, *lengths])
    return Encoded(np.arange(2, 2 + offsets[-1]).astype(np.uint16), offsets)


def test_rows_are_padded_at_the_end():
    batch = pad(encoded_of([2, 1, 3]), np.array([2, 0, 1]))
    assert batch.ids.tolist() == [[5, 6, 7], [2, 3, PAD], [4, PAD, PAD]]
    assert batch.lengths.tolist() == [3, 2, 1]
    assert batch.rows.tolist() == [2, 0, 1]


@settings(deadline=None, max_examples=50)
@given(LENGTHS, st.integers(1, 7), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_covers_every_document_once_with_its_own_tokens(lengths, size, seed, epoch):
    encoded = encoded_of(lengths)
    batches = list(training_batches(encoded, size, seed=seed, epoch=epoch))
    assert len(batches) == -(-len(lengths) // size)
    assert sorted(np.concatenate([batch.rows for batch in batches])) == list(range(len(lengths)))
    for batch in batches:
        assert batch.lengths.min() >= 1
        for ids, length, row in zip(batch.ids, batch.lengths, batch.rows, strict=True):
            assert ids[:length].tolist() == encoded[row].tolist()
            assert not ids[length:].any()


@settings(deadline=None, max_examples=50)
@given(LENGTHS, st.integers(1, 7), st.integers(0, 40))
def test_resuming_at_a_position_equals_going_on(lengths, size, start):
    encoded = encoded_of(lengths)
    through = list(training_batches(encoded, size, seed=1, epoch=2))[start:]
    resumed = list(training_batches(encoded, size, seed=1, epoch=2, start=start))
    assert len(through) == len(resumed)
    for one, other in zip(through, resumed, strict=True):
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.rows, other.rows)


@settings(deadline=None, max_examples=50)
@given(LENGTHS, st.integers(1, 7), st.integers(0, 40))
def test_batches_by_length_are_as_large_as_their_tokens_allow(lengths, size, most):
    lengths = np.array(lengths)
    planned = by_length(lengths, size, most_tokens=most)
    # The same order as without a limit, which is by falling length.
    free = np.concatenate(by_length(lengths, size))
    np.testing.assert_array_equal(np.concatenate(planned), free)
    for i, rows in enumerate(planned):
        fits = max(1, most // int(lengths[rows].max()))
        assert len(rows) <= min(size, fits)
        assert len(rows) == min(size, fits) or i == len(planned) - 1


def test_epochs_and_seeds_have_orders_of_their_own():
    encoded = encoded_of([5] * 64)
    orders = {
        tuple(np.concatenate([b.rows for b in training_batches(encoded, 8, seed=s, epoch=e)]))
        for s in range(3)
        for e in range(3)
    }
    assert len(orders) == 9


def test_documents_of_similar_length_share_a_batch():
    lengths = np.random.default_rng(0).integers(1, 200, 1_000)
    batches = list(training_batches(encoded_of(lengths), 20, seed=0, epoch=0))
    padded = sum(batch.ids.size for batch in batches)
    assert padded < 1.1 * lengths.sum()  # random batches would pad to almost twice as much


@settings(deadline=None, max_examples=50)
@given(LENGTHS, st.integers(1, 7))
def test_answers_of_inference_batches_return_to_the_order_of_the_corpus(lengths, size):
    encoded = encoded_of(lengths)
    batches, inverse = inference_batches(encoded, size)
    answers = [batch.rows for batch in batches]
    assert np.concatenate(answers)[inverse].tolist() == list(range(len(lengths)))
    widths = [encoded.lengths[rows].max() for rows in answers]
    assert widths == sorted(widths, reverse=True)


def test_a_batch_size_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1 document, not 0"):
        next(training_batches(encoded_of([1]), 0, seed=0, epoch=0))
