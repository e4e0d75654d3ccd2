"""Texts of different lengths one after another, without padding.

A pretrained encoder reads packed texts: its linear layers never see padding, and on a GPU its
attention needs no mask. The host knows all lengths, so nothing waits for the device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]


class Packed(NamedTuple):
    """The ids of m texts."""

    ids: Tensor  # (t,)
    places: Tensor  # (t,): the place of each id in its own text
    offsets: Tensor  # (m + 1,), int32: where each text begins, and the end
    longest: int  # ids of the longest text

    @property
    def lengths(self) -> Tensor:
        """The number of ids of each text, (m,)."""
        return self.offsets.diff()

    def owners(self) -> Tensor:
        """Return (t,): the number of the text of each id."""
        numbers = torch.arange(len(self.offsets) - 1, device=self.ids.device)
        return torch.repeat_interleave(numbers, self.lengths, output_size=len(self.ids))


def pack(ids: Tensor, lengths: Rows) -> Packed:
    """Return texts of these lengths, whose ids (t,) follow one another."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    on_device = torch.from_numpy(offsets).to(ids.device, non_blocking=True)
    packed = Packed(ids, ids, on_device, int(lengths.max(initial=0)))
    starts = on_device[:-1][packed.owners()]
    return packed._replace(places=torch.arange(len(ids), device=ids.device) - starts)


def pad_rows(x: Tensor, starts: Tensor, lengths: Tensor, longest: int) -> Tensor:
    """Return (n, longest, ...): rows of x (t, ...), 0 after the end of each."""
    t = torch.arange(longest, device=x.device)
    positions = (starts[:, None] + t).clamp(max=max(len(x) - 1, 0))
    is_inside = (t < lengths[:, None]).view(*positions.shape, *([1] * (x.dim() - 1)))
    return torch.where(is_inside, x[positions], 0)
