"""Tables of node parameters: one row a node, trained by row, saved in fp16, memory-mapped.

In training a table is an embedding with a sparse gradient, of the rows that were read, or a
`HalfTable`. Afterwards it is a `FrozenTable`, in memory or in a mapped file. All of them map node
numbers to rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.io.tensors import TensorSpec, load_tensors, save_tensors
from ontodex.models.lightattention.scorers import NodeVector
from ontodex.models.trees.label_tree import LabelTree
from ontodex.models.weights import SHARD_BYTES

FROZEN_ROWS = 2**16  # of a table, copied at once
MAPPED_BYTES = 2**28  # tables of more than this are saved as one file, which can be mapped


class HalfTable(nn.Module):
    """Rows in training whose vectors are bf16. The biases are fp32: those of rare labels are large,
    and bf16 would round them to sixteenths."""

    def __init__(self, vectors: Sequence[Tensor], biases: Tensor) -> None:
        super().__init__()
        columns = [*vectors, biases[:, None]]  # (n, w) each, of nodes
        self.columns = nn.ModuleList(
            nn.Embedding.from_pretrained(one, freeze=False, sparse=True) for one in columns
        )

    def forward(self, nodes: Tensor) -> Tensor:
        return torch.cat([column(nodes).float() for column in self.columns], dim=-1)


class FrozenTable(nn.Module):
    """The fp16 rows of a trained table. On a CPU only the rows asked for are read."""

    def __init__(self, rows: NDArray[np.float16], device: torch.device) -> None:
        super().__init__()
        self.rows = rows
        self.on_gpu = None
        if device.type != "cpu":
            writable = rows if rows.flags.writeable else rows.copy()
            self.on_gpu = torch.from_numpy(writable).to(device)

    def forward(self, nodes: Tensor) -> Tensor:
        if self.on_gpu is not None:
            return self.on_gpu[nodes].float()
        return torch.from_numpy(self.rows[nodes.numpy()]).float()


def row_width(vectors: Sequence[NodeVector]) -> int:
    """Return the numbers in a row: these vectors and a bias."""
    return sum(vector.width for vector in vectors) + 1


def create_table(
    vectors: Sequence[NodeVector], odds: Tensor, device: torch.device, *, sparse: bool = False
) -> nn.Embedding:
    """Create rows of these vectors and a bias, which starts at the node's log-odds."""
    rows = torch.empty(len(odds), row_width(vectors), device=device)
    parts = rows[:, :-1].split([vector.width for vector in vectors], dim=-1)
    for part, vector in zip(parts, vectors, strict=True):
        part.normal_(std=vector.std)
    rows[:, -1] = odds.to(device)
    return nn.Embedding.from_pretrained(rows, freeze=False, sparse=sparse)


def create_half_table(
    vectors: Sequence[NodeVector], odds: Tensor, device: torch.device
) -> HalfTable:
    """Create rows of these vectors in bf16, and biases, which start at the node's log-odds."""
    drawn = [
        torch.empty(len(odds), vector.width, dtype=torch.bfloat16, device=device).normal_(
            std=vector.std
        )
        for vector in vectors
    ]
    return HalfTable(drawn, odds.to(device))


@torch.no_grad()
def freeze_table(table: nn.Module) -> FrozenTable:
    """Return the trained rows, rounded to fp16. The trained table is emptied: a GPU may not hold
    both."""
    parameters = list(table.parameters())
    device, n_rows = parameters[0].device, len(parameters[0])
    rows = np.empty((n_rows, sum(p.shape[1] for p in parameters)), np.float16)
    for nodes in torch.arange(n_rows, device=device).split(FROZEN_ROWS):
        rows[int(nodes[0]) : int(nodes[-1]) + 1] = table(nodes).half().cpu().numpy()
    for parameter in parameters:
        parameter.data = parameter.new_empty(0, parameter.shape[1])
    return FrozenTable(rows, device)


def save_tables(folder: Path, tables: Mapping[str, FrozenTable]) -> None:
    """Write tables; large ones as one file, so that it can be memory-mapped."""
    arrays = {name: table.rows for name, table in tables.items()}
    large = sum(array.nbytes for array in arrays.values()) > MAPPED_BYTES
    save_tensors(folder, "tables", arrays, **({} if large else {"shard_bytes": SHARD_BYTES}))


def load_tables(
    folder: Path, shapes: Mapping[str, tuple[int, int]], device: torch.device
) -> list[FrozenTable]:
    """Read the tables of these names and shapes, memory-mapped where they are one file."""
    # All values are checked now. The digests of the manifest have just read the whole file too.
    specs = {name: TensorSpec(shape, "float16") for name, shape in shapes.items()}
    arrays = load_tensors(folder, "tables", specs)
    return [FrozenTable(arrays[name], device) for name in shapes]


def compute_node_log_odds(tree: LabelTree, gold: csr_array, *, given_parent: bool) -> list[Tensor]:
    """Return the initial bias of each node, for each level below the root.

    It is the log-odds that a training document has a label below the node, among all documents or
    (`given_parent`) among those of its parent, as the product along the path needs.
    """
    document = np.repeat(np.arange(gold.shape[0]), np.diff(gold.indptr))
    above = np.array([gold.shape[0]])  # documents of each node of the level above
    odds = []
    for level in range(1, tree.height + 2):
        n_nodes = tree.count_nodes(level)
        pairs = np.unique(document * n_nodes + tree.find_nodes(level)[gold.indices])
        counts = np.bincount(pairs % n_nodes, minlength=n_nodes)
        parent = np.repeat(np.arange(len(above)), np.diff(tree.first[level - 1]))
        among = above[parent] if given_parent else gold.shape[0]
        odds.append(torch.from_numpy(_logit((counts + 0.5) / (among + 1))).float())
        above = counts
    return odds


def _logit(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(p / (1 - p))
