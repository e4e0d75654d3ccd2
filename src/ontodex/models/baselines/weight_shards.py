"""Classifiers of many labels on disk: written label by label, read feature by feature.

    jobs of labels ─ one file each ─ joined a block of features at a time ─ memory-mapped matrix
                     (features, l)                                          (features, labels)

Memory holds one block and the number of values of each feature, whatever the number of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.io.files import write_tensors
from ontodex.io.tensors import Array, map_tensor_file

_BLOCK_VALUES = 2**21  # joined at a time (about 100 MiB)


def write_shard(path: Path, weights: csr_array, labels: NDArray[np.int64]) -> None:
    """Write the classifiers (l, features) of some labels, by feature."""
    by_feature = csr_array(weights.T)
    parts = {"data": by_feature.data, "indices": by_feature.indices, "indptr": by_feature.indptr}
    write_tensors(path, {**parts, "labels": np.ascontiguousarray(labels)})


def join_shards(paths: Sequence[Path], shape: tuple[int, int]) -> csr_array:
    """Return all classifiers (features, labels), memory-mapped from files beside the first shard.

    The files may be removed while the matrix is in use: the system keeps what is mapped.
    """
    shards = [map_tensor_file(path) for path in paths]
    counts = np.zeros(shape[0], dtype=np.int64)
    for shard in shards:
        counts += np.diff(shard["indptr"])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    size = int(indptr[-1])
    kind = np.dtype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)  # SciPy needs one
    data = _map_new(paths[0].with_name("data"), np.dtype(np.float32), size)
    indices = _map_new(paths[0].with_name("indices"), kind, size)
    start = 0
    while start < shape[0]:
        limit = np.searchsorted(indptr, indptr[start] + _BLOCK_VALUES, side="right") - 1
        end = max(start + 1, int(limit))
        block = slice(int(indptr[start]), int(indptr[end]))
        indices[block], data[block] = _join_rows(shards, start, end)
        start = end
    return csr_array((data, indices, indptr.astype(kind)), shape=shape)


def _map_new(path: Path, kind: np.dtype[Any], size: int) -> Array:
    """Return the mapped values of a new file; no file can be empty."""
    return np.memmap(path, kind, "w+", shape=max(size, 1))[:size]


def _join_rows(shards: Sequence[dict[str, Array]], start: int, end: int) -> tuple[Array, Array]:
    """Return the labels and values of consecutive features, in the order of features and labels."""
    rows, labels, values = [], [], []
    for shard in shards:
        pointers = shard["indptr"][start : end + 1]
        part = slice(int(pointers[0]), int(pointers[-1]))
        rows.append(np.repeat(np.arange(end - start), np.diff(pointers)))
        labels.append(shard["labels"][shard["indices"][part]])
        values.append(shard["data"][part])
    joined = np.concatenate(labels)
    order = np.lexsort((joined, np.concatenate(rows)))
    return joined[order], np.concatenate(values)[order]
