"""Sparse documents into a network: the first layer reads the non-zeros and nothing else.

W1 x = sum over the non-zeros j of x of x_j W1[j]        (an embedding bag)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.errors import RunError
from ontodex.train import store
from ontodex.train.loop import LoopConfig

SHARD_BYTES = 15 * 2**20  # so that a run can travel in small files
_LONG = 30_000  # features; a batch of 128 abstracts has some 5,000 different words

Rows = NDArray[np.int64]


class SparseInput:
    """Sparse rows flat on one device; a batch is gathered there."""

    def __init__(self, rows: csr_array, device: torch.device) -> None:
        self.lengths: Rows = np.diff(rows.indptr).astype(np.int64)
        self._columns = torch.from_numpy(rows.indices.astype(np.int32)).to(device)
        self._values = torch.from_numpy(rows.data.astype(np.float32)).to(device)
        self._starts = torch.from_numpy(rows.indptr[:-1].astype(np.int64)).to(device)
        self._lengths = torch.from_numpy(self.lengths).to(device)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """(columns, where each document starts among them, values) of these documents."""
        total = int(self.lengths[rows].sum())  # known here, so that nothing asks the device
        at = torch.from_numpy(rows).to(self._columns.device, non_blocking=True)
        lengths = self._lengths[at]
        starts = lengths.cumsum(0) - lengths
        moved = torch.repeat_interleave(self._starts[at] - starts, lengths, output_size=total)
        places = moved + torch.arange(total, device=moved.device)
        return self._columns[places].long(), starts, self._values[places]


class SparseLinear(nn.EmbeddingBag):
    """A linear layer whose cost follows the non-zeros of its input; with `by_row` the cost of the
    optimizer does too (`train/rows.py`)."""

    def __init__(
        self, n_features: int, width: int, *, typical_length: float, by_row: bool = False
    ) -> None:
        # Outputs start at about 0.1 each, however long the documents' rows are.
        weight = torch.empty(n_features, width).normal_(std=0.1 / max(typical_length, 1e-6))
        super().__init__(n_features, width, mode="sum", sparse=by_row, _weight=weight)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Columns and values of all documents, and where each document starts among them."""
        return super().forward(input, offsets, per_sample_weights) + self.bias


def long_table(n_features: int, settings: LoopConfig) -> bool:
    """Whether a step reads so few of the features' rows that they are better learned by row."""
    return n_features >= _LONG and settings.optimizer == "adam"


def save_network(folder: Path, network: nn.Module) -> None:
    """Write the weights in half precision, in files small enough to travel."""
    weights = {name: w.half().cpu().numpy() for name, w in network.state_dict().items()}
    store.save_tensors(folder, "network", weights, shard_bytes=SHARD_BYTES)


def load_network(folder: Path, network: nn.Module) -> None:
    """Fill a network of the right shape with what `save_network` wrote."""
    weights = load_finite(folder, "network")
    try:
        network.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
    except RuntimeError as error:
        raise RunError(f"{folder}: the network does not fit its settings ({error})") from error


def load_finite(folder: Path, name: str) -> dict[str, NDArray[np.float32]]:
    """The arrays that `store.save_tensors` wrote, in single precision."""
    tensors = store.load_tensors(folder, name)
    for key, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise RunError(f"{folder}: tensor {key!r} holds values that are not finite")
    return {key: tensor.astype(np.float32) for key, tensor in tensors.items()}


def typical_length(rows: csr_array) -> float:
    """The root mean square length of the rows."""
    n = max(1, rows.shape[0])
    return float(np.sqrt(np.square(rows.data, dtype=np.float64).sum() / n))


__all__ = [
    "SparseInput",
    "SparseLinear",
    "load_finite",
    "load_network",
    "long_table",
    "save_network",
    "typical_length",
]
