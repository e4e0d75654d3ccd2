"""Texts to vectors of length 1: the mean of the states that an encoder gives their pieces.

pieces ─ encoder ─ mean over the text ─ length 1
 (t,)     (t,d)          (n,d)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ontodex.features.batches import batch_by_length
from ontodex.features.word_pieces import join_words
from ontodex.io.progress import track
from ontodex.models.layers.packed import Packed, pack
from ontodex.models.layers.ragged import Ragged
from ontodex.models.pretrained import PretrainedEncoder

Vectors = NDArray[np.float32]
_AT_ONCE = 32  # texts in a batch


class TextVectors:
    """Encodes texts; only the first `window` pieces of a text are read."""

    def __init__(self, encoder: PretrainedEncoder, window: int, device: torch.device) -> None:
        self.pieces, self.window, self.device = encoder.pieces, window, device
        self.network = encoder.network.to(device).eval()
        self.width = encoder.config.hidden_size

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], description: str = "") -> Vectors:
        """Return one vector (d,) of length 1 for each text, (n, d)."""
        rows = Ragged(self.pieces.encode(texts, window=self.window, n_windows=1), self.device)
        vectors = np.empty((len(rows), self.width), np.float32)
        batches = list(batch_by_length(rows.lengths, _AT_ONCE))
        for batch in track(batches, description) if description else batches:
            packed = pack(rows.flatten(batch), rows.lengths[batch])
            vectors[batch] = average_texts(self.network(packed), packed).cpu().numpy()
        return vectors

    @torch.inference_mode()
    def explain(self, text: str, target: Vectors) -> list[tuple[int, int, float]]:
        """Return (start, end, weight) of each word: its part of the product of the text's vector
        and `target` (d,). With the special pieces, the parts add up to the product."""
        (pieces,) = self.pieces.divide([text], window=self.window, n_windows=1)
        ids = torch.tensor([piece.id for piece in pieces], device=self.device)
        h = self.network(pack(ids, np.array([len(pieces)])))  # (t, d)
        length = h.sum(dim=0).norm().clamp_min(1e-12)  # as F.normalize; it may underflow to 0
        parts = h @ torch.from_numpy(target).to(self.device) / length  # (t,)
        return join_words(pieces, parts.tolist())


def average_texts(h: Tensor, texts: Packed) -> Tensor:
    """Return (m, d): the mean of the states h (t, d) of each text, scaled to length 1."""
    total = h.new_zeros(len(texts.lengths), h.shape[1], dtype=torch.float32)
    return F.normalize(total.index_add_(0, texts.owners(), h.float()), dim=1)
