"""Texts to vectors of length 1: the mean of the states that an encoder gives their pieces.

pieces ─ encoder ─ mean over the text ─ length 1
(n,t)    (n,t,d)         (n,d)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ontodex.features.batches import batch_by_length
from ontodex.features.word_pieces import join_words
from ontodex.io.progress import track
from ontodex.models.layers.ragged import Ragged
from ontodex.models.layers.words import token_mask
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
            pieces, lengths = rows.pad(batch)
            h = self.network(pieces, lengths)  # (n, t, d)
            total = torch.where(token_mask(pieces, lengths)[:, :, None], h, 0).sum(dim=1)  # (n, d)
            vectors[batch] = F.normalize(total, dim=1).cpu().numpy()
        return vectors

    @torch.inference_mode()
    def explain(self, text: str, target: Vectors) -> list[tuple[int, int, float]]:
        """Return (start, end, weight) of each word: its part of the product of the text's vector
        and `target` (d,). With the special pieces, the parts add up to the product."""
        (pieces,) = self.pieces.divide([text], window=self.window, n_windows=1)
        ids = torch.tensor([[piece.id for piece in pieces]], device=self.device)
        h = self.network(ids, torch.tensor([len(pieces)], device=self.device))[0]  # (t, d)
        parts = h @ torch.from_numpy(target).to(self.device) / h.sum(dim=0).norm()  # (t,)
        return join_words(pieces, parts.tolist())
