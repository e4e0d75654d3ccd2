"""Plans of batches: every document once, similar lengths together, the same order again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.features.batches import batch_by_length, plan

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=40)


@settings(deadline=None, max_examples=50)
@given(LENGTHS, st.integers(1, 7), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_covers_every_document_once_and_repeats_exactly(lengths, size, seed, epoch):
    lengths = np.array(lengths)
    batches = plan(lengths, size, seed=seed, epoch=epoch)
    assert len(batches) == -(-len(lengths) // size)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    again = plan(lengths, size, seed=seed, epoch=epoch)
    for one, other in zip(batches, again, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(deadline=None, max_examples=50)
@given(LENGTHS, st.integers(1, 7), st.integers(0, 40))
def test_batches_by_length_are_as_large_as_their_tokens_allow(lengths, size, most):
    lengths = np.array(lengths)
    planned = batch_by_length(lengths, size, most_tokens=most)
    # The same order as without a limit.
    free = np.concatenate(batch_by_length(lengths, size))
    np.testing.assert_array_equal(np.concatenate(planned), free)
    for i, rows in enumerate(planned):
        fits = max(1, most // int(lengths[rows].max()))
        assert len(rows) <= min(size, fits)
        assert len(rows) == min(size, fits) or i == len(planned) - 1


@settings(deadline=None, max_examples=50)
@given(LENGTHS, st.integers(1, 7))
def test_batches_by_length_cover_every_document_once_the_longest_first(lengths, size):
    lengths = np.array(lengths)
    order = np.concatenate(batch_by_length(lengths, size))
    assert sorted(order.tolist()) == list(range(len(lengths)))
    assert lengths[order].tolist() == sorted(lengths.tolist(), reverse=True)


def test_epochs_and_seeds_have_orders_of_their_own():
    lengths = np.full(64, 5)
    orders = {
        tuple(np.concatenate(plan(lengths, 8, seed=seed, epoch=epoch)))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


def test_documents_of_similar_length_share_a_batch():
    lengths = np.random.default_rng(0).integers(1, 200, 1_000)
    batches = plan(lengths, 20, seed=0, epoch=0)
    padded = sum(len(rows) * lengths[rows].max() for rows in batches)
    assert padded < 1.1 * lengths.sum()  # random batches would pad to almost twice as much


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_size_below_one_is_refused(size):
    with pytest.raises(ValueError, match=f"at least 1 document, not {size}"):
        plan(np.ones(1, np.int64), size, seed=0, epoch=0)
    with pytest.raises(ValueError, match=f"at least 1 document, not {size}"):
        batch_by_length(np.ones(1, np.int64), size)
