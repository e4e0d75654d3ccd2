"""Packed texts: places, owners, and back to padded rows."""

from __future__ import annotations

import numpy as np
import torch

from ontodex.features.vocabulary import EncodedTexts
from ontodex.models.layers.packed import pack, pad_rows
from ontodex.models.layers.ragged import Ragged


def test_places_start_at_zero_in_each_text():
    packed = pack(torch.tensor([7, 8, 9, 5, 6]), np.array([3, 2]))
    assert packed.places.tolist() == [0, 1, 2, 0, 1]
    assert packed.offsets.tolist() == [0, 3, 5]
    assert packed.lengths.tolist() == [3, 2]
    assert packed.owners().tolist() == [0, 0, 0, 1, 1]
    assert packed.longest == 3


def test_rows_are_padded_with_zeros_behind_their_end():
    x = torch.arange(1.0, 11).view(5, 2)
    padded = pad_rows(x, torch.tensor([0, 3]), torch.tensor([3, 2]), 3)
    assert padded.tolist() == [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [0, 0]]]


def test_rows_are_flattened_in_the_order_asked_for():
    rows = Ragged(EncodedTexts(np.arange(10, 16), np.array([0, 1, 4, 6])), torch.device("cpu"))
    assert rows.flatten(np.array([2, 0])).tolist() == [14, 15, 10]
    assert rows.flatten(np.array([1])).tolist() == [11, 12, 13]
