"""PECOS matrices: X.NAME.npz (sparse) or X.NAME.npy (dense), and Y.NAME.npz with the labels.

Labels are columns of Y; output-labels.txt beside them gives their ids. Values of Y are weights.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, load_npz, save_npz

from ontodex.errors import DataError
from ontodex.files import FREE, MAX_RATIO, atomic
from ontodex.read.head import Head
from ontodex.read.holds import LINE_BREAK, Holds
from ontodex.read.numbers import LabelIds, ListFile, number_labels
from ontodex.read.pairs import Pair
from ontodex.read.relevance import metadata_of, weights_of
from ontodex.types import Corpus, Doc

HOLDS = Holds(
    kinds=frozenset({"sparse", "dense"}),
    id=False,
    fields="none",
    metadata="relevance",
    label_forbids=LINE_BREAK,
)
WRITES_FROM_CORPUS = True
LABELS = ListFile("output-labels.txt")
SPARSE, DENSE = Pair("X.{}.npz", "Y.{}.npz"), Pair("X.{}.npy", "Y.{}.npz")

Dense = NDArray[np.float32]


def looks_like(head: Head) -> bool:
    """A zip of arrays, or an array, with its counterpart beside it."""
    pair = _find(head.path)
    return (
        pair is not None
        and Head.of(pair[0]).start.startswith((b"PK\x03\x04", b"\x93NUMPY"))
        and Head.of(pair[1]).start.startswith(b"PK\x03\x04")
    )


def _find(path: Path) -> tuple[Path, Path] | None:
    shared = SPARSE.shared(path.name) or DENSE.shared(path.name)
    if shared is not None:  # X may be dense although its sparse name was given
        return SPARSE.both(path.parent, shared) or DENSE.both(path.parent, shared)
    return SPARSE.find(path) or DENSE.find(path)


def _existing(path: Path) -> tuple[Path, Path]:
    return _find(path) or SPARSE.existing(path)


def sources(path: Path) -> list[Path]:
    """Both files and the list of labels beside them."""
    pair = _existing(path)
    return [*pair, *LabelIds(pair[0], LABELS).sources()]


def n_features(path: Path) -> int:
    """The columns of X."""
    return int(_load(_existing(path)[0]).shape[1])


def read(path: Path) -> Iterator[Doc]:
    """The documents, numbered from 1."""
    x_path, y_path = _existing(path)
    x, y = _load(x_path), _load(y_path)
    if not isinstance(y, csr_array) or x.shape[0] != y.shape[0]:
        raise DataError(f"{y.shape[0]:,} rows, but {x_path.name} has {x.shape[0]:,}", path=y_path)
    ids = LabelIds(x_path, LABELS)
    for row in range(x.shape[0]):
        weights = {ids.of_number(column): weight for column, weight in _row(y, row).items()}
        yield Doc(
            str(row + 1),
            labels=tuple(weights),
            metadata=metadata_of(weights),
            features=_row(x, row) if isinstance(x, csr_array) else tuple(x[row].tolist()),
        )


def _row(matrix: csr_array, row: int) -> dict[int, float]:
    place = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return dict(zip(matrix.indices[place].tolist(), matrix.data[place].tolist(), strict=True))


def _load(path: Path) -> csr_array | Dense:
    """The matrix of a file that nobody vouches for: no pickles, no bombs, sound indices."""
    try:
        if path.suffix == ".npy":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            if array.ndim != 2 or array.dtype.kind not in "fiub":
                raise DataError(f"an array {array.shape} of {array.dtype}, not a matrix", path=path)
            return _finite(array.astype(np.float32, copy=False), path)
        _check_members(path)
        matrix = csr_array(load_npz(path))  # scipy refuses pickled arrays
        matrix.check_format(full_check=True)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"not a matrix that can be read ({error})", path=path) from error
    if matrix.data.dtype.kind not in "fiub":
        raise DataError(f"a matrix of {matrix.data.dtype}, not of numbers", path=path)
    _finite(matrix.data, path)
    matrix.sum_duplicates()
    return matrix


def _finite(values: Dense, path: Path) -> Dense:
    if not np.isfinite(values).all():
        raise DataError("a matrix with values that are not finite", path=path)
    return values


def _check_members(path: Path) -> None:
    """Refuse a zip whose arrays are larger than its bytes can honestly hold."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > max(FREE, MAX_RATIO * path.stat().st_size):
            raise DataError(
                f"unpacks to {unpacked / 2**20:,.0f} MiB, over {MAX_RATIO} times its size; that "
                "looks like a decompression bomb",
                path=path,
            )
        for member in members:
            with archive.open(member) as file:
                if _claimed(file) > member.file_size:
                    raise DataError(f"{member.filename} claims more than it holds", path=path)


def _claimed(file: IO[bytes]) -> int:
    """The bytes of the array that a .npy header announces."""
    version = np.lib.format.read_magic(file)
    read_header: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(file)
    return math.prod(shape) * int(dtype.itemsize)


def targets(path: Path) -> list[Path]:
    """X in both forms: which it will be is not known before the documents are. And Y."""
    return list(dict.fromkeys([*_named(path, SPARSE), *_named(path, DENSE)]))


def _named(path: Path, pair: Pair) -> tuple[Path, Path]:
    """X and Y of a pair."""
    shared = SPARSE.shared(path.name) or DENSE.shared(path.name) or path.name
    return path.with_name(pair.first.format(shared)), path.with_name(pair.second.format(shared))


def write(corpus: Corpus, path: Path) -> int:
    """Write X (.npy for dense features) and Y; labels that are not numbers go to a list."""
    x = corpus.features()
    x_path, y_path = _named(path, SPARSE if isinstance(x, csr_array) else DENSE)
    columns = number_labels(corpus, x_path, LABELS)
    y = _label_matrix(corpus, columns)
    with atomic(x_path) as x_file, atomic(y_path) as y_file:
        if isinstance(x, csr_array):
            x.sort_indices()
            save_npz(x_file, x)
        else:
            np.save(x_file, x, allow_pickle=False)
        save_npz(y_file, y)
    return len(corpus)


def _label_matrix(corpus: Corpus, columns: Mapping[str, int]) -> csr_array:
    rows = [weights_of(doc) for doc in corpus]
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([columns[label] for row in rows for label in row], dtype=np.int32)
    data = np.array([weight for row in rows for weight in row.values()], dtype=np.float32)
    shape = (len(rows), max(columns.values(), default=-1) + 1)
    matrix = csr_array((data, indices, indptr), shape=shape)
    matrix.sort_indices()
    return matrix
