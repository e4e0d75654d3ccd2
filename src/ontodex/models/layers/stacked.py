"""Fully connected layers one after another."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class StackedLayers(nn.Module):
    """Applies ReLU and then a linear layer, for each of `widths`. With no widths the input stays.

    The last ReLU is left to the caller, as is the first layer, which label attention applies to
    tokens before it attends.
    """

    def __init__(self, width: int, widths: Sequence[int]) -> None:
        super().__init__()
        pairs = zip([width, *widths], widths, strict=False)
        self.each = nn.ModuleList(nn.Linear(before, after) for before, after in pairs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.each:
            x = layer(F.relu(x))
        return x
