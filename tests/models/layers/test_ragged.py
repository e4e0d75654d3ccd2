"""Rows of different lengths, padded by hand."""

from __future__ import annotations

import tracemalloc

import numpy as np
import torch
from scipy.sparse import csr_array

from mapped_tokens import LENGTH, N_DOCS, map_tokens
from ontodex.features.vocabulary import EncodedTexts, Vocabulary
from ontodex.models.layers.ragged import Ragged

CPU = torch.device("cpu")
ROWS = Ragged(EncodedTexts(np.array([4, 5, 6, 7, 8, 9]), np.array([0, 2, 5, 6])), CPU)


def test_a_batch_is_padded_with_0_to_its_longest_row():
    ids, lengths = ROWS.pad(np.array([2, 0]))
    assert ids.tolist() == [[9, 0], [4, 5]]
    assert lengths.tolist() == [1, 2]


def test_the_last_row_is_padded_past_the_end_of_all_ids():
    ids, _ = ROWS.pad(np.array([1, 2]))
    assert ids.tolist() == [[6, 7, 8], [9, 0, 0]]


def test_gold_labels_become_ones_and_unseen_columns_are_left_out():
    gold = csr_array(np.array([[1, 0, 1, 1], [0, 0, 0, 1], [0, 1, 0, 0]]))
    rows = Ragged.of_gold(gold, 3, CPU)
    assert rows.to_multi_hot(np.array([2, 0, 1]), 3).tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]


def test_documents_in_a_mapped_file_are_read_with_a_few_bytes_a_token(tmp_path):
    """Two bytes for an id on the way and four on the device, however long the file."""
    tokens = map_tokens(tmp_path)
    tracemalloc.start()
    vocabulary = Vocabulary.fit(tokens, min_count=3, max_length=150)
    fitted = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    rows = Ragged(vocabulary.encode(tokens), CPU)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n_tokens = N_DOCS * LENGTH
    assert rows.lengths.sum() == n_tokens
    assert fitted < 2.5 * n_tokens, "counting works in blocks"
    assert peak < 7 * n_tokens
    assert kept < 4.5 * n_tokens
