"""Words of documents that stay in a mapped file, for corpora larger than memory."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ontodex.features.tokens import Tokens, check_length
from ontodex.features.vocabulary import UNKNOWN, Vocabulary
from ontodex.models.layers.ragged import Ragged


class MappedWords:
    """The batches of a `Ragged` of words, each read from the tokens when it is asked for.

    Memory holds the length of each document and the id of each word of the tokens. A document
    without words is one unknown word.
    """

    def __init__(
        self, tokens: Tokens, vocabulary: Vocabulary, max_length: int, device: torch.device
    ) -> None:
        check_length(tokens, max_length)
        self._tokens, self._table, self.device = tokens, vocabulary.number_words(tokens), device
        self.lengths = tokens.lengths.clip(1, max_length or None)

    def __len__(self) -> int:
        return len(self.lengths)

    def pad(self, rows: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Return (ids (n, t) with 0 after the end, lengths (n,)) of these documents."""
        lengths = self.lengths[rows]
        ids = np.zeros((len(rows), int(lengths.max(initial=1))), np.int64)
        ids[:, 0] = UNKNOWN  # of a document without words
        offsets = self._tokens.offsets
        for row, length, out in zip(rows, lengths, ids, strict=True):
            start, end = offsets[row], min(offsets[row] + length, offsets[row + 1])
            out[: end - start] = self._table[self._tokens.ids[start:end]]
        batch = torch.from_numpy(ids), torch.from_numpy(lengths)
        return tuple(tensor.to(self.device, non_blocking=True) for tensor in batch)


Words = Ragged | MappedWords  # the words of documents, in memory or read from a file
