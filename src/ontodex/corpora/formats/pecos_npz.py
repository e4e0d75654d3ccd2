"""PECOS matrices: X.NAME.npz (sparse) or X.NAME.npy (dense), and Y.NAME.npz with the labels.

Labels are columns of Y; output-labels.txt beside it has their ids. Values of Y are weights.
"""

from __future__ import annotations

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, load_npz, save_npz

from ontodex.corpora.parsing.capabilities import LINE_BREAK, FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.file_pairs import FilePair
from ontodex.corpora.parsing.label_numbers import LabelIds, LabelList, number_labels
from ontodex.corpora.parsing.relevance import get_weights, make_metadata
from ontodex.errors import DataError
from ontodex.io.files import FREE_TABLE, MAX_RATIO, open_atomic
from ontodex.types import Corpus, Doc

CAPABILITIES = FormatCapabilities(
    kinds=frozenset({"sparse", "dense"}),
    id=False,
    fields="none",
    metadata="relevance",
    label_forbids=LINE_BREAK,
)
WRITES_FROM_CORPUS = True
LABELS = LabelList("output-labels.txt")
SPARSE, DENSE = FilePair("X.{}.npz", "Y.{}.npz"), FilePair("X.{}.npy", "Y.{}.npz")

Dense = NDArray[np.float32]
# What zipfile, zlib, numpy and scipy raise for a damaged file.
_DAMAGED = (
    *(OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, SyntaxError),
    *(NotImplementedError, RuntimeError, OverflowError, MemoryError, struct.error, zlib.error),
    *(tokenize.TokenError, zipfile.BadZipFile, lzma.LZMAError),
)


def looks_like(head: Head) -> bool:
    """Recognise a zip of arrays, or an array, with its counterpart beside it."""
    pair = _find(head.path)
    return (
        pair is not None
        and Head.of(pair[0]).start.startswith((b"PK\x03\x04", b"\x93NUMPY"))
        and Head.of(pair[1]).start.startswith(b"PK\x03\x04")
    )


def _find(path: Path) -> tuple[Path, Path] | None:
    shared = SPARSE.find_common_name(path.name) or DENSE.find_common_name(path.name)
    if shared is not None:  # X may be dense although the argument is its sparse name
        return SPARSE.find_in(path.parent, shared) or DENSE.find_in(path.parent, shared)
    return SPARSE.find(path) or DENSE.find(path)


def _require(path: Path) -> tuple[Path, Path]:
    return _find(path) or SPARSE.require(path)


def sources(path: Path) -> list[Path]:
    """Return both files and the list of labels beside them."""
    pair = _require(path)
    return [*pair, *LabelIds(pair[0], LABELS).sources()]


def n_features(path: Path) -> int:
    """Return the number of columns of X."""
    return int(_load_matrix(_require(path)[0]).shape[1])


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; they are numbered from 1."""
    x_path, y_path = _require(path)
    x, y = _load_matrix(x_path), _load_matrix(y_path)
    if not isinstance(y, csr_array) or x.shape[0] != y.shape[0]:
        raise DataError(f"{y.shape[0]:,} rows, but {x_path.name} has {x.shape[0]:,}", path=y_path)
    ids = LabelIds(x_path, LABELS)
    for row in range(x.shape[0]):
        weights = {
            ids.look_up_number(column): weight for column, weight in _get_row(y, row).items()
        }
        yield Doc(
            str(row + 1),
            labels=tuple(weights),
            metadata=make_metadata(weights),
            features=_get_row(x, row) if isinstance(x, csr_array) else tuple(x[row].tolist()),
        )


def _get_row(matrix: csr_array, row: int) -> dict[int, float]:
    place = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return dict(zip(matrix.indices[place].tolist(), matrix.data[place].tolist(), strict=True))


def _load_matrix(path: Path) -> csr_array | Dense:
    """Load the matrix of an untrusted file: no pickles, no bombs, valid indices."""
    try:
        if path.suffix == ".npy":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            if array.ndim != 2 or array.dtype.kind not in "fiub":
                raise DataError(f"an array {array.shape} of {array.dtype}, not a matrix", path=path)
            return _check_finite(array.astype(np.float32, copy=False), path)
        _check_members(path)
        matrix = csr_array(load_npz(path))  # scipy refuses pickled arrays
        matrix.check_format(full_check=True)
    except _DAMAGED as error:
        raise DataError(f"not a readable matrix ({error})", path=path) from error
    if matrix.data.dtype.kind not in "fiub":
        raise DataError(f"a matrix of {matrix.data.dtype}, not of numbers", path=path)
    _check_finite(matrix.data, path)
    matrix.sum_duplicates()
    return matrix


def _check_finite(values: Dense, path: Path) -> Dense:
    if not np.isfinite(values).all():
        raise DataError("the matrix has values that are not finite", path=path)
    return values


def _check_members(path: Path) -> None:
    """Raise a DataError for a decompression bomb, or an array header larger than its data."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > max(FREE_TABLE, MAX_RATIO * path.stat().st_size):
            raise DataError(
                f"unpacks to {unpacked / 2**20:,.0f} MiB, over {MAX_RATIO} times its size; that "
                "looks like a decompression bomb",
                path=path,
            )
        for member in members:
            with archive.open(member) as file:
                if _read_claimed_size(file) > member.file_size:
                    raise DataError(f"{member.filename} claims more data than it has", path=path)


def _read_claimed_size(file: IO[bytes]) -> int:
    """Return the number of bytes in the header of a .npy file."""
    version = np.lib.format.read_magic(file)
    read_header: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(file)
    return math.prod(shape) * int(dtype.itemsize)


def targets(path: Path) -> list[Path]:
    """Return X in both forms, because the kind of features is not known yet, and Y."""
    return list(dict.fromkeys([*_name_targets(path, SPARSE), *_name_targets(path, DENSE)]))


def _name_targets(path: Path, pair: FilePair) -> tuple[Path, Path]:
    """Return the files X and Y of a pair."""
    shared = SPARSE.find_common_name(path.name) or DENSE.find_common_name(path.name) or path.name
    return path.with_name(pair.first.format(shared)), path.with_name(pair.second.format(shared))


def write(corpus: Corpus, path: Path) -> int:
    """Write X (.npy for dense features) and Y, and a list of labels that are not numbers."""
    x = corpus.features()
    x_path, y_path = _name_targets(path, SPARSE if isinstance(x, csr_array) else DENSE)
    columns = number_labels(corpus, x_path, LABELS)
    y = _make_label_matrix(corpus, columns)
    with open_atomic(x_path) as x_file, open_atomic(y_path) as y_file:
        if isinstance(x, csr_array):
            x.sort_indices()
            save_npz(x_file, x)
        else:
            np.save(x_file, x, allow_pickle=False)
        save_npz(y_file, y)
    return len(corpus)


def _make_label_matrix(corpus: Corpus, columns: Mapping[str, int]) -> csr_array:
    rows = [get_weights(doc) for doc in corpus]
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([columns[label] for row in rows for label in row], dtype=np.int32)
    data = np.array([weight for row in rows for weight in row.values()], dtype=np.float32)
    shape = (len(rows), max(columns.values(), default=-1) + 1)
    matrix = csr_array((data, indices, indptr), shape=shape)
    matrix.sort_indices()
    return matrix
