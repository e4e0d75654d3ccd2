"""Train label trees with omikuji and convert them to a `Forest`.

omikuji writes to stdout and gives access to its trees only as CBOR files. So it runs in its own
process, in a temporary folder, and its files are read from there.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack

from ontodex.errors import RunError, require
from ontodex.io.temporary import temporary_folder
from ontodex.models.trees.forest import Forest

logger = logging.getLogger(__name__)

_WORKER = """
import json, sys
from ontodex.io.child_process import end_with_parent
data, settings, out, parent = sys.argv[1:]
end_with_parent(int(parent))
import omikuji
chosen = omikuji.Model.default_hyper_param()
for name, value in json.loads(settings).items():
    setattr(chosen, name, value)
omikuji.Model.train_on_data(data, chosen).save(out)
"""
_BLOCK_DOCS = 1_024  # written as text at a time
_TAIL = 2_000  # characters of omikuji's output shown when it fails


def train_forest(
    rows: csr_array, gold: csr_array, settings: Mapping[str, Any], work: Path | None = None
) -> Forest:
    """Train a forest with omikuji; `settings` are its hyper-parameters.

    Its files are temporary, in `work` or else in the system's folder for temporary files.
    """
    require("omikuji", extra="learn", purpose="training label trees")
    with temporary_folder((work or Path(tempfile.gettempdir())) / "ontodex-omikuji") as folder:
        write_training_file(rows, gold, folder / "train.txt")
        with (folder / "log.txt").open("wb") as log:
            done = subprocess.run(  # noqa: S603  (our own code and paths, without a shell)
                [sys.executable, "-c", _WORKER, folder / "train.txt", json.dumps(settings),
                 folder / "trees", str(os.getpid())],
                stdout=log, stderr=log, check=False,
            )  # fmt: skip
        if done.returncode:
            output = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
            raise RunError(f"omikuji ended with code {done.returncode}: ...{output[-_TAIL:]}")
        return read_forest(folder / "trees")


def write_training_file(rows: csr_array, gold: csr_array, path: Path) -> None:
    """Write the labelled documents in the format of the Extreme Classification Repository."""
    labelled = np.flatnonzero(np.diff(gold.indptr))
    with path.open("w", encoding="ascii") as file:
        file.write(f"{len(labelled)} {rows.shape[1]} {gold.shape[1]}\n")
        for start in range(0, len(labelled), _BLOCK_DOCS):
            part = labelled[start : start + _BLOCK_DOCS]
            lines = _format_lines(rows[part], gold[part]).to_pylist()
            file.writelines(f"{line.rstrip()}\n" for line in lines)  # a document may be empty


def _format_lines(rows: csr_array, gold: csr_array) -> pa.StringArray:
    """Write labels and features as text, with Arrow: it takes half the time of Python."""
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


def read_forest(folder: Path) -> Forest:
    """Read the trees of a model folder of omikuji, in the order of their names."""
    width = json.loads((folder / "settings.json").read_text())["n_features"] + 1
    first, child, is_leaf, roots = [0], [], [], []
    parts: list[csr_array] = []
    n_nodes = 0
    for path in sorted(folder.glob("tree*.cbor")):
        roots.append(n_nodes)
        waiting = deque([CborReader(path.read_bytes()).read_item()])
        n_nodes += 1
        while waiting:  # breadth first: nodes are numbered in the order of this queue
            ((kind, node),) = waiting.popleft().items()
            weights = _read_classifiers(node["weights"], width)
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


def _read_classifiers(saved: Mapping[str, Any], width: int) -> csr_array:
    """Convert a node's weights, saved feature by feature, to (children, features + bias)."""
    ((kind, table),) = saved.items()
    if kind == "Dense":
        return csr_array(np.asarray(table["data"], np.float32).reshape(table["dim"]).T)
    features = np.repeat(np.asarray(table["outer_inds"]), np.diff(table["indptr"])).astype(np.int32)
    children = np.asarray(table["inner_inds"], dtype=np.int32)
    values = np.asarray(table["data"], dtype=np.float32)
    shape = (int(table["inner_dim"]), width)
    return csr_array(coo_array((values, (children, features)), shape=shape))


class CborReader:
    """A reader of the part of CBOR (RFC 8949) that omikuji writes; numbers become numpy arrays."""

    _ARRAY, _MAP = 4, 5
    _EXTRA = (*[0] * 24, 1, 2, 4, 8, *[0] * 4)  # bytes after the head, by its lower five bits
    _LENGTH = tuple(1 + extra for extra in _EXTRA) * 8  # of a number, by its head

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read_item(self) -> Any:
        """Read the next value."""
        kind, lower = divmod(self.data[self.at], 32)
        if kind in (0, 7):
            return self._read_numbers(1)[0].item()
        size = self._read_argument(lower)
        if kind == 3:
            self.at += size
            return self.data[self.at - size : self.at].decode()
        if kind == self._MAP:
            return {self.read_item(): self.read_item() for _ in range(size)}
        if kind != self._ARRAY:
            raise RunError(f"omikuji saved a CBOR value of type {kind}, which was not expected")
        is_numbers = size > 0 and self.data[self.at] // 32 in (0, 7)
        return self._read_numbers(size) if is_numbers else [self.read_item() for _ in range(size)]

    def _read_argument(self, lower: int) -> int:
        extra = self._EXTRA[lower]
        start, self.at = self.at + 1, self.at + 1 + extra
        return int.from_bytes(self.data[start : self.at], "big") if extra else lower

    def _read_numbers(self, count: int) -> NDArray[Any]:
        """Read whole numbers or floats.

        Each number is written with as few bytes as it needs, so numbers are grouped by their head
        byte and each group is read at once.
        """
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
