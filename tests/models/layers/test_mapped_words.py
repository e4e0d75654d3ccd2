"""Words in a mapped file, against the same words in memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch

from mapped_tokens import LENGTH, N_DOCS, map_tokens
from ontodex.features.tokens import Tokens
from ontodex.features.vocabulary import Vocabulary
from ontodex.models import readers
from ontodex.models.attentive.config import AttentiveConfig
from ontodex.models.layers.mapped_words import MappedWords
from ontodex.models.layers.ragged import Ragged
from ontodex.models.readers import WordReader
from ontodex.types import Corpus, Doc

CPU = torch.device("cpu")
TEXTS = ["old oak and trout", "", "red trout", "oak", "an unknown fish beside an old red oak"]


@pytest.mark.parametrize("max_length", [0, 3])
def test_batches_are_those_of_words_in_memory(max_length):
    tokens = Tokens.of([text.split() for text in TEXTS])
    vocabulary = Vocabulary.fit(tokens, min_count=2)
    mapped = MappedWords(tokens, vocabulary, max_length, CPU)
    kept = Ragged(vocabulary.encode(tokens, max_length), CPU)
    assert len(mapped) == len(kept)
    assert mapped.lengths.tolist() == kept.lengths.tolist()
    for rows in ([0], [1], [4, 1, 0], [3, 2, 1, 0]):
        for one, other in zip(mapped.pad(np.array(rows)), kept.pad(np.array(rows)), strict=True):
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()


def test_a_reader_keeps_the_words_of_a_large_corpus_in_their_file(monkeypatch):
    corpus = Corpus.of([Doc(str(i), {"text": text}) for i, text in enumerate(TEXTS)])
    reader = WordReader(AttentiveConfig(min_count=1, stop_words=""))
    kept, rows = reader.fit(corpus, CPU), np.arange(len(TEXTS))
    monkeypatch.setattr(readers, "MOST_IN_MEMORY", 3)
    mapped = reader.encode(corpus, CPU)
    assert (type(kept), type(mapped)) == (Ragged, MappedWords)
    assert mapped.pad(rows)[0].tolist() == kept.pad(rows)[0].tolist()


def test_memory_is_that_of_lengths_and_one_batch(tmp_path):
    tokens = map_tokens(tmp_path)
    vocabulary = Vocabulary.fit(tokens)
    tracemalloc.start()
    mapped = MappedWords(tokens, vocabulary, 150, CPU)
    for start in range(0, N_DOCS, 100):
        mapped.pad(np.arange(start, start + 100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.4 * N_DOCS * LENGTH  # bytes; ids in memory take at least 4 each
