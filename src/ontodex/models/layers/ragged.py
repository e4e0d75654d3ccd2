"""Rows of different lengths (tokens of documents, gold labels) on one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ontodex.features.vocabulary import EncodedTexts


class Ragged:
    """Rows of ids in one flat tensor; a padded batch is gathered on the device."""

    def __init__(self, encoded: EncodedTexts, device: torch.device) -> None:
        self.lengths = np.diff(encoded.offsets)
        # One more id at the end, in no row, so that every position a batch asks for exists.
        ids = np.zeros(len(encoded.ids) + 1, np.int32)
        ids[:-1] = encoded.ids
        self._ids = torch.from_numpy(ids).to(device)
        self._starts = torch.from_numpy(encoded.offsets[:-1].astype(np.int64)).to(device)
        self._lengths = torch.from_numpy(self.lengths).to(device)

    @classmethod
    def of_gold(cls, gold: Any, n_labels: int, device: torch.device) -> Ragged:
        """Take the columns below `n_labels` of each row of a gold matrix."""
        gold = gold[:, :n_labels]
        return cls(EncodedTexts(gold.indices, gold.indptr.astype(np.int64)), device)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def device(self) -> torch.device:
        return self._ids.device

    def pad(self, rows: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Return (ids (n, t) with 0 after the end, lengths (n,)) of these rows. The host knows t,
        so nothing waits for the device."""
        positions, is_inside, lengths = self.positions(rows)
        return torch.where(is_inside, self._ids[positions].long(), 0), lengths

    def flatten(self, rows: NDArray[np.int64]) -> Tensor:
        """Return (t,): the ids of these rows, one row after another."""
        positions, _ = gather_positions(self._starts, self._lengths, rows, self.lengths)
        return self._ids[positions].long()

    def positions(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Return (positions (n, t) in the flat tensor, whether they belong to the row (n, t),
        lengths (n,)) of these rows."""
        width = int(self.lengths[rows].max(initial=1))
        at = torch.from_numpy(rows).to(self._ids.device, non_blocking=True)
        lengths = self._lengths[at]
        t = torch.arange(width, device=self._ids.device)
        positions = (self._starts[at][:, None] + t).clamp(max=len(self._ids) - 1)
        return positions, t < lengths[:, None], lengths

    def to_multi_hot(self, rows: NDArray[np.int64], n_columns: int) -> Tensor:
        """Return (n, n_columns): 1 at the ids of each of these rows, 0 elsewhere."""
        positions, is_inside, _ = self.positions(rows)
        target = torch.zeros(len(rows), n_columns + 1, device=self._ids.device)
        target.scatter_(1, torch.where(is_inside, self._ids[positions].long(), n_columns), 1.0)
        return target[:, :n_columns]


def gather_positions(
    starts: Tensor, lengths: Tensor, rows: NDArray[np.int64], host_lengths: NDArray[np.int64]
) -> tuple[Tensor, Tensor]:
    """Return (positions (t,) of all values of these rows in a flat tensor, where each of the rows
    begins among them (n,)). `host_lengths` are `lengths` on the host, so that nothing waits."""
    total = int(host_lengths[rows].sum())
    at = torch.from_numpy(rows).to(starts.device, non_blocking=True)
    own = lengths[at]
    begins = own.cumsum(0) - own
    shift = torch.repeat_interleave(starts[at] - begins, own, output_size=total)
    return shift + torch.arange(total, device=starts.device), begins
