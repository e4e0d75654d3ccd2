"""The recurrent encoder: vectors of tokens in, one state a token out.

x (n,t,e) ─┬─ LSTM, first token to last ───────────────────────┬─ h (n,t,2d)
           └─ reversed ─ LSTM ─ reversed ─ last token to first ─┘
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers import fp16_lstm


class BiLSTM(nn.Module):
    """Two one-way LSTMs over padded batches; neither reads padding.

    Padding is at the end, so the forward direction meets it last. For the backward direction each
    sequence is reversed within its own length. On a GPU one-way fp16 calls with widths that are
    multiples of 128 reach cuDNN's persistent kernels, several times faster than one bidirectional
    packed call (docs/papers/attentionxml.md).
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.onward = nn.LSTM(width, hidden, batch_first=True)
        self.backward_ = nn.LSTM(width, hidden, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        backwards = reverse_within_length(x, lengths)  # (n, t, e)
        h, g = _run_lstm(self.onward, x), _run_lstm(self.backward_, backwards)  # (n, t, d) each
        return torch.cat([h, reverse_within_length(g, lengths)], dim=-1)  # (n, t, 2d)


def _run_lstm(layer: nn.LSTM, x: Tensor) -> Tensor:
    """Return the states (n, t, d) of a one-way LSTM, in the fastest form for the device."""
    if not x.is_cuda:
        return fp16_lstm.run_lstm(layer, x)
    n = len(x)
    # cuDNN's persistent kernels need a multiple of 8 sequences.
    with torch.autocast("cuda", dtype=torch.float16):
        return layer(F.pad(x, (0, 0, 0, 0, 0, -n % 8)))[0][:n]


def reverse_within_length(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each sequence of x (n, t, d) within its own length; padding stays at the end."""
    t = torch.arange(x.shape[1], device=x.device)
    source = torch.where(t < lengths[:, None], lengths[:, None] - 1 - t, t)  # (n, t)
    return x.gather(1, source[:, :, None].expand_as(x))
