"""Category-dependent dynamic max pooling (section 2.1.3) against loops."""

from __future__ import annotations

import pytest
import torch
from levelwise_loops import maxima_by_loops

from ontodex.models.levelwise.pooling import (
    Chunks,
    compute_chunk_maxima,
)


@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 8])
def test_chunk_maxima_equal_the_paper_in_loops(chunks):
    x = torch.randn(6, 7, 3, dtype=torch.double)
    lengths = torch.tensor([7, 6, 5, 3, 1, 0])
    found = compute_chunk_maxima(x, lengths, Chunks.of([chunks, 2]))
    torch.testing.assert_close(found[:, :chunks], maxima_by_loops(x, lengths, chunks))
    torch.testing.assert_close(found[:, chunks:], maxima_by_loops(x, lengths, 2))


def test_chunks_are_numbered_and_know_of_how_many_they_are():
    assert Chunks.of([1, 3]).table.tolist() == [[0, 0, 1, 2], [1, 3, 3, 3]]


def test_one_chunk_is_max_pooling_and_an_empty_sequence_gives_zeros():
    x = torch.randn(2, 4, 3)
    pooled = compute_chunk_maxima(x, torch.tensor([4, 0]), Chunks.of([1]))
    torch.testing.assert_close(pooled[0, 0], x[0].amax(dim=0))
    assert torch.equal(pooled[1], torch.zeros(1, 3))


def test_maxima_of_one_position_are_its_features():
    """Convolutions give their features transposed, with strides of one place that mean nothing."""
    x = torch.arange(12.0).view(4, 3, 1).transpose(1, 2)  # (n, 1, d)
    pooled = compute_chunk_maxima(x, torch.tensor([1, 1, 0, 1]), Chunks.of([1]))
    expected = x.clone()
    expected[2] = 0
    torch.testing.assert_close(pooled, expected)


def test_gradients_of_chunk_maxima():
    x = torch.randn(2, 6, 2, dtype=torch.double, requires_grad=True)
    lengths = torch.tensor([6, 3])
    assert torch.autograd.gradcheck(
        lambda y: compute_chunk_maxima(y, lengths, Chunks.of([4, 1])), x
    )
