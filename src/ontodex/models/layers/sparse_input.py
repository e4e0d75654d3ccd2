"""The first layer of networks over sparse features, which reads only the non-zeros.

W1 x = sum over the non-zeros j of x of x_j W1[j]        (an embedding bag)
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.models.layers.ragged import gather_positions
from ontodex.types.loop_config import LoopConfig

ROW_UPDATE_FEATURES = 30_000  # a batch of 128 abstracts has some 5,000 distinct words

Rows = NDArray[np.int64]


class SparseInput:
    """Sparse rows in flat tensors on one device; a batch is gathered there."""

    def __init__(self, rows: csr_array, device: torch.device) -> None:
        self.lengths: Rows = np.diff(rows.indptr).astype(np.int64)
        self._columns = torch.from_numpy(rows.indices.astype(np.int32)).to(device)
        self._values = torch.from_numpy(rows.data.astype(np.float32)).to(device)
        self._starts = torch.from_numpy(rows.indptr[:-1].astype(np.int64)).to(device)
        self._lengths = torch.from_numpy(self.lengths).to(device)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Return (columns, start of each document among them, values) of these documents."""
        positions, starts = gather_positions(self._starts, self._lengths, rows, self.lengths)
        return self._columns[positions].long(), starts, self._values[positions]


class SparseLinear(nn.EmbeddingBag):
    """A linear layer whose cost grows with the non-zeros of its input; with `by_row` that of the
    optimizer too (training/sparse_gradients.py)."""

    def __init__(
        self, n_features: int, width: int, *, input_norm: float, by_row: bool = False
    ) -> None:
        # Initial outputs are about 0.1 each, whatever the norm of the documents' rows.
        weight = torch.empty(n_features, width).normal_(std=0.1 / max(input_norm, 1e-6))
        super().__init__(n_features, width, mode="sum", sparse=by_row, _weight=weight)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Return (n, width) for columns, starts and values as `SparseInput.batch` gives them."""
        return super().forward(input, offsets, per_sample_weights) + self.bias


def needs_row_updates(n_features: int, settings: LoopConfig) -> bool:
    """Tell whether a step reads so few rows of the table that updating only these is faster."""
    return n_features >= ROW_UPDATE_FEATURES and settings.optimizer == "adam"


def compute_row_norm(rows: csr_array) -> float:
    """Return the root mean square of the rows' Euclidean norms."""
    n = max(1, rows.shape[0])
    return float(np.sqrt(np.square(rows.data, dtype=np.float64).sum() / n))
