"""The encoder of the word stream (Deep Level-wise XMLC, section 2.1.1, left of Figure 2).

    vectors (n,t,e) ─ convolutions 3,4,5 (n,t,3m) ─ BiLSTM (n,t,2d)

The same convolutions, without BiLSTM, encode keywords and neighbour labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.levelwise.config import LevelwiseConfig


class Convolutions(nn.Module):
    """Convolutions of several window widths around each position, with ReLU.

    Texts are padded with zeros on both sides, so every position has all features.
    """

    def __init__(self, width: int, maps: int, windows: Sequence[int]) -> None:
        super().__init__()
        self.each = nn.ModuleList(nn.Conv1d(width, maps, window) for window in windows)
        self.windows = tuple(windows)
        self.width = maps * len(windows)

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return convolve_as_matmul([self], x.transpose(0, 1)).transpose(0, 1)
        x = x.transpose(1, 2)  # (n, e, t)
        maps = [
            convolve(F.pad(x, ((window - 1) // 2, window // 2)))
            for convolve, window in zip(self.each, self.windows, strict=True)
        ]
        return F.relu(torch.cat(maps, dim=1)).transpose(1, 2)  # (n, t, all maps)

    def flatten_weights(self, window: int) -> tuple[Tensor, Tensor]:
        """Return the weights (all maps, window * e) and biases (all maps,) of one matrix product.

        Narrower convolutions are padded with zeros to this window.
        """
        layers = [layer for layer in self.each if isinstance(layer, nn.Conv1d)]
        edges = [((window - 1) // 2 - (w - 1) // 2, window // 2 - w // 2) for w in self.windows]
        wide = [F.pad(layer.weight, edge) for layer, edge in zip(layers, edges, strict=True)]
        bias = torch.cat([layer.bias for layer in layers if layer.bias is not None])
        return torch.cat(wide).transpose(1, 2).flatten(1), bias


def convolve_as_matmul(convolutions: Sequence[Convolutions], x: Tensor) -> Tensor:
    """Return the features (t, n, all maps) of x (t, n, e) by one matrix product, for a GPU.

    cuDNN would plan every convolution again for every shape of a batch.
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    t, window = len(x), max(max(one.windows) for one in convolutions)
    padded = F.pad(x, (0, 0, 0, 0, (window - 1) // 2, window // 2))
    windows = torch.cat([padded[i : i + t] for i in range(window)], dim=2)  # (t, n, window * e)
    weights, biases = zip(*(one.flatten_weights(window) for one in convolutions), strict=True)
    return F.relu(F.linear(windows, torch.cat(weights), torch.cat(biases)))


class WordEncoder(nn.Module):
    """Convolutions over word vectors, and a BiLSTM over their features."""

    def __init__(self, config: LevelwiseConfig) -> None:
        super().__init__()
        self.convolve = Convolutions(config.width, config.maps, config.windows)
        self.encode = BiLSTM(self.convolve.width, config.hidden)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        h: Tensor = self.encode(self.convolve(x), lengths)
        return h  # (n, t, 2d)


class EncodedWords(NamedTuple):
    """The encoded words of a batch of documents, as the network of a level reads them."""

    h: Tensor  # (n, t, 2d)
    lengths: Tensor  # (n,)

    def take(self, rows: Tensor | None) -> EncodedWords:
        """Return the same for some documents of the batch (None: all)."""
        if rows is None:
            return self
        return EncodedWords(self.h.index_select(0, rows), self.lengths[rows])
