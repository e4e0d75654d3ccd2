"""omikuji as a trainer only: documents in, its trees out as arrays of ours.

omikuji writes to stdout, takes no seed, keeps its trees to itself and saves them as CBOR. So it
runs in a process of its own, in a folder that vanishes, and what it saved there is read once.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack

from ontodex.errors import RunError, require
from ontodex.models.sparse_rows import by_feature

logger = logging.getLogger(__name__)

Ints = NDArray[np.int32]

_WORKER = """
import json, sys, omikuji
data, settings, out = sys.argv[1:]
chosen = omikuji.Model.default_hyper_param()
for name, value in json.loads(settings).items():
    setattr(chosen, name, value)
omikuji.Model.train_on_data(data, chosen).save(out)
"""
_ROWS_TOGETHER = 1_024  # documents turned into text at a time
_TAIL = 2_000  # characters of omikuji's output shown when it fails


@dataclass(frozen=True, eq=False)
class Forest:
    """Label trees. A node has consecutive classifiers, one per child; a child is a node or, below a
    leaf, a label."""

    weights: csr_array  # (classifiers, features + bias)
    first: Ints  # (nodes + 1): classifiers of node i are first[i] to first[i + 1]
    child: Ints  # (classifiers): node, or column of a label below a leaf
    is_leaf: NDArray[np.bool_]  # (nodes): its children are labels
    roots: Ints  # (trees)

    @cached_property
    def by_feature(self) -> csr_array:
        """The classifiers as (features + bias, classifiers), a copy in memory."""
        return by_feature(self.weights)


def train(rows: csr_array, gold: csr_array, settings: Mapping[str, Any]) -> Forest:
    """A forest learned by omikuji with these of its hyper-parameters."""
    require("omikuji", extra="learn", purpose="training label trees")
    with tempfile.TemporaryDirectory(prefix="ontodex-omikuji-") as name:
        folder = Path(name)
        write_training_file(rows, gold, folder / "train.txt")
        with (folder / "log.txt").open("wb") as log:
            done = subprocess.run(
                [sys.executable, "-c", _WORKER, folder / "train.txt", json.dumps(settings),
                 folder / "trees"],
                stdout=log, stderr=log, check=False,
            )  # fmt: skip
        if done.returncode:
            said = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
            raise RunError(f"omikuji ended with code {done.returncode}: ...{said[-_TAIL:]}")
        return read_forest(folder / "trees")


def write_training_file(rows: csr_array, gold: csr_array, path: Path) -> None:
    """Extreme Classification Repository format; documents without labels teach nothing here."""
    labelled = np.flatnonzero(np.diff(gold.indptr))
    with path.open("w", encoding="ascii") as file:
        file.write(f"{len(labelled)} {rows.shape[1]} {gold.shape[1]}\n")
        for start in range(0, len(labelled), _ROWS_TOGETHER):
            part = labelled[start : start + _ROWS_TOGETHER]
            lines = _lines(rows[part], gold[part]).to_pylist()
            file.writelines(f"{line.rstrip()}\n" for line in lines)  # a document may be empty


def _lines(rows: csr_array, gold: csr_array) -> pa.StringArray:
    """Arrow turns millions of numbers into text in half the time that Python takes."""
    words = pa.string()
    pairs = pc.binary_join_element_wise(
        pa.array(rows.indices).cast(words), pa.array(rows.data).cast(words), ":"
    )
    labels = pa.array(gold.indices).cast(words)
    return pc.binary_join_element_wise(
        pc.binary_join(pa.ListArray.from_arrays(gold.indptr.astype(np.int32), labels), ","),
        pc.binary_join(pa.ListArray.from_arrays(rows.indptr.astype(np.int32), pairs), " "),
        " ",
    )


# ------------------------------------------------------------------------------- its files -> ours


def read_forest(folder: Path) -> Forest:
    """The trees of a model folder of omikuji, in the order of their names."""
    width = json.loads((folder / "settings.json").read_text())["n_features"] + 1
    first, child, is_leaf, roots = [0], [], [], []
    parts: list[csr_array] = []
    n_nodes = 0
    for path in sorted(folder.glob("tree*.cbor")):
        roots.append(n_nodes)
        waiting = deque([Cbor(path.read_bytes()).item()])
        n_nodes += 1
        while waiting:  # breadth first: node numbers are given in the order of this queue
            ((kind, node),) = waiting.popleft().items()
            weights = _classifiers(node["weights"], width)
            is_leaf.append(kind == "Leaf")
            if kind == "Leaf":
                child.append(np.asarray(node["labels"], dtype=np.int32))
            else:
                waiting.extend(node["children"])
                child.append(np.arange(n_nodes, n_nodes + len(node["children"]), dtype=np.int32))
                n_nodes += len(node["children"])
            parts.append(weights)
            first.append(first[-1] + weights.shape[0])
    weights = csr_array(vstack(parts, format="csr"))
    weights.sort_indices()
    return Forest(
        weights,
        np.array(first, dtype=np.int32),
        np.concatenate(child),
        np.array(is_leaf),
        np.array(roots, dtype=np.int32),
    )


def _classifiers(saved: Mapping[str, Any], width: int) -> csr_array:
    """(children, features + bias) from a node's weights, which omikuji keeps feature by feature."""
    ((kind, table),) = saved.items()
    if kind == "Dense":
        return csr_array(np.asarray(table["data"], np.float32).reshape(table["dim"]).T)
    features = np.repeat(np.asarray(table["outer_inds"]), np.diff(table["indptr"])).astype(np.int32)
    children = np.asarray(table["inner_inds"], dtype=np.int32)
    values = np.asarray(table["data"], dtype=np.float32)
    shape = (int(table["inner_dim"]), width)
    return csr_array(coo_array((values, (children, features)), shape=shape))


class Cbor:
    """Reader of the part of CBOR (RFC 8949) that omikuji writes; arrays of numbers become numpy."""

    _ARRAY, _MAP = 4, 5
    _EXTRA = (*[0] * 24, 1, 2, 4, 8, *[0] * 4)  # bytes after the head, by its lower five bits
    _LENGTH = tuple(1 + extra for extra in _EXTRA) * 8  # of a number, by its head

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def item(self) -> Any:
        """The next value."""
        kind, lower = divmod(self.data[self.at], 32)
        if kind in (0, 7):
            return self._numbers(1)[0].item()
        size = self._argument(lower)
        if kind == 3:
            self.at += size
            return self.data[self.at - size : self.at].decode()
        if kind == self._MAP:
            return {self.item(): self.item() for _ in range(size)}
        if kind != self._ARRAY:
            raise RunError(f"omikuji saved a CBOR value of type {kind}, which was not expected")
        is_numbers = size > 0 and self.data[self.at] // 32 in (0, 7)
        return self._numbers(size) if is_numbers else [self.item() for _ in range(size)]

    def _argument(self, lower: int) -> int:
        extra = self._EXTRA[lower]
        start, self.at = self.at + 1, self.at + 1 + extra
        return int.from_bytes(self.data[start : self.at], "big") if extra else lower

    def _numbers(self, count: int) -> NDArray[Any]:
        """Whole numbers or floats; each has the shortest form that holds it, so they are sorted by
        their heads and read form by form."""
        places, at, data, length = [], self.at, self.data, self._LENGTH
        for _ in range(count):
            places.append(at)
            at += length[data[at]]
        self.at = at
        bytes_, starts = np.frombuffer(data, dtype=np.uint8), np.array(places, dtype=np.int64)
        heads = bytes_[starts]
        is_float = bool(heads[0] >= 0xE0)
        values = np.zeros(count, dtype=np.float64 if is_float else np.int64)
        if not is_float:
            values[:] = heads % 32
        for head in np.unique(heads[heads % 32 >= 24]).tolist():
            chosen = np.flatnonzero(heads == head)
            extra = self._EXTRA[head % 32]
            raw = bytes_[starts[chosen, None] + np.arange(1, extra + 1)]
            values[chosen] = raw.view(f">{'f' if is_float else 'u'}{extra}")[:, 0]
        return values
