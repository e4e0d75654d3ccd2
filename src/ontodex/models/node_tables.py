"""A row of numbers for each node of a label tree: learned by row, kept in half precision, mapped.

In training a table is an embedding whose gradient names the rows that were read; afterwards it is a
`HalfTable`, in memory or in a mapped file. Either is called with node numbers and gives their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.errors import RunError
from ontodex.models.label_tree import LabelTree
from ontodex.models.neural import SHARD_BYTES
from ontodex.models.tree_network import Vector
from ontodex.train import store

MAPPED_BYTES = 2**28  # tables of more than this are one file, which can be mapped


class HalfTable(nn.Module):
    """A table that learns no more. On a CPU only the rows that are asked for are read, so it is
    there that they are checked."""

    def __init__(self, rows: NDArray[np.float16], device: torch.device) -> None:
        super().__init__()
        self.rows = rows
        self.on_gpu = None
        if device.type != "cpu":
            self.on_gpu = torch.from_numpy(rows.copy()).to(device)
            _refuse_broken(self.on_gpu)

    def forward(self, nodes: Tensor) -> Tensor:
        if self.on_gpu is not None:
            return self.on_gpu[nodes].float()
        rows = torch.from_numpy(self.rows[nodes.numpy()]).float()
        _refuse_broken(rows)
        return rows


def _refuse_broken(rows: Tensor) -> None:
    if not bool(torch.isfinite(rows.sum(dtype=torch.float32))):  # halves cannot add up to infinity
        raise RunError(
            "a table of label parameters holds values that are not finite",
            hint="copy the run folder again, or train again",
        )


def row_width(vectors: Sequence[Vector]) -> int:
    """Numbers of a row: these vectors and a bias."""
    return sum(vector.width for vector in vectors) + 1


def fresh_table(
    vectors: Sequence[Vector], odds: Tensor, device: torch.device, *, sparse: bool = False
) -> nn.Embedding:
    """Rows of these vectors and a bias, which starts at the node's log-odds."""
    rows = torch.empty(len(odds), row_width(vectors), device=device)
    parts = rows[:, :-1].split([vector.width for vector in vectors], dim=-1)
    for part, vector in zip(parts, vectors, strict=True):
        part.normal_(std=vector.spread)
    rows[:, -1] = odds.to(device)
    return nn.Embedding.from_pretrained(rows, freeze=False, sparse=sparse)


def frozen(table: nn.Embedding) -> HalfTable:
    """The same rows, rounded, learning no more."""
    rows = table.weight.detach()
    return HalfTable(rows.half().cpu().numpy(), rows.device)


def save_tables(folder: Path, tables: Mapping[str, HalfTable]) -> None:
    """Write tables; large ones in one piece, so that a file can be mapped."""
    arrays = {name: table.rows for name, table in tables.items()}
    large = sum(array.nbytes for array in arrays.values()) > MAPPED_BYTES
    store.save_tensors(folder, "tables", arrays, **({} if large else {"shard_bytes": SHARD_BYTES}))


def load_tables(
    folder: Path, shapes: Mapping[str, tuple[int, int]], device: torch.device
) -> list[HalfTable]:
    """The tables of these names and shapes, mapped where they lie in one piece."""
    arrays = store.load_tensors(folder, "tables")
    for name, shape in shapes.items():
        seen = arrays.get(name)
        if seen is None or seen.shape != shape or seen.dtype != np.float16:
            raise RunError(f"{folder}: table {name!r} does not fit the settings of this run")
    return [HalfTable(arrays[name], device) for name in shapes]


def node_odds(tree: LabelTree, gold: csr_array, way: str) -> list[Tensor]:
    """For each level below the root: the logit that a node has a document's label below it (way =
    "alone"); of that what it adds to its parent's ("sum"); or among its parent's documents only, as
    in training ("product")."""
    document = np.repeat(np.arange(gold.shape[0]), np.diff(gold.indptr))
    counts_above, above = np.array([gold.shape[0]]), np.zeros(1)
    odds = []
    for level in range(1, tree.height + 2):
        n_nodes = tree.n_nodes(level)
        pairs = np.unique(document * n_nodes + tree.node_of(level)[gold.indices])
        counts = np.bincount(pairs % n_nodes, minlength=n_nodes)
        parent = np.repeat(np.arange(len(above)), np.diff(tree.first[level - 1]))
        among = counts_above[parent] if way == "product" else gold.shape[0]
        logits = _logit((counts + 0.5) / (among + 1))
        odds.append(torch.from_numpy(logits - above[parent]).float())
        counts_above, above = counts, logits if way == "sum" else np.zeros(n_nodes)
    return odds


def _logit(share: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(share / (1 - share))
