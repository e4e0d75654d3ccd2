"""Read and write the tensors of a run folder as safetensors files, and check them against specs.

A system declares each tensor with a `TensorSpec`. `load_tensors` refuses a file that does not match
and names the file, the tensor, what was expected and what was seen. Arrays stored in one part are
memory-mapped. Sparse matrices go through `save_csr` and `load_csr`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.io.files import write_tensors, write_text
from ontodex.io.json_schema import load_json

Array = NDArray[Any]
Kind = Literal["float", "float16", "int", "bool"]
Size = int | str | None
Sizes = Mapping[str, int]

_DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BOOL": np.bool_,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
}  # fmt: skip
MAX_SHARDS = 10**6  # of one set of tensors
_BLOCK = 2**20  # values that are checked at a time
_HINT = "copy the run folder again, or train again"


@dataclass(frozen=True)
class TensorSpec:
    """The shape, the kind of numbers and the range that a saved tensor must have.

    A size is an int, None (any size) or a name. Tensors that use the same name must agree on it:
    ("labels", "words") and ("labels",) share the number of labels.
    """

    shape: tuple[Size, ...]
    kind: Kind = "float"
    finite: bool = True  # False: the values of a large mapped table are checked where they are read
    minimum: float | None = None  # inclusive
    maximum: float | None = None  # inclusive


MAX_WEIGHT = 1e6  # of trained parameters; sums and products of such numbers stay finite


def weight_spec(shape: tuple[Size, ...]) -> TensorSpec:
    """Return the spec of trained parameters."""
    return TensorSpec(shape, minimum=-MAX_WEIGHT, maximum=MAX_WEIGHT)


Specs = Mapping[str, TensorSpec]


def load_tensors(
    folder: Path, name: str, specs: Specs, sizes: Sizes | None = None
) -> dict[str, Array]:
    """Read the tensors that `save_tensors` wrote and refuse those that do not match their specs.

    `sizes` gives sizes that are known beforehand by name, such as the number of labels.
    """
    tensors = read_tensors(folder, name)
    check_tensors(_shard_path(folder, name, 0), tensors, specs, sizes)
    return tensors


def check_tensors(
    path: Path | str, tensors: Mapping[str, Array], specs: Specs, sizes: Sizes | None = None
) -> None:
    """Raise a RunError for a tensor that is missing, not expected or does not match its spec."""
    for key in specs.keys() - tensors.keys():
        raise RunError(f"{path}: tensor {key!r} is missing", hint=_HINT)
    for key in tensors.keys() - specs.keys():
        if not tensors[key].size:  # of a part that a system of version 0.1 had but did not use
            continue
        raise RunError(
            f"{path}: tensor {key!r} is not expected; expected are {_list_names(specs)}",
            hint=_HINT,
        )
    bound = dict(sizes or {})
    for key, spec in specs.items():
        _check_kind(path, key, tensors[key], spec)
        _check_shape(path, key, tensors[key].shape, spec, bound)
        _check_values(path, key, tensors[key], spec)


def _list_names(specs: Specs) -> str:
    return ", ".join(sorted(specs)) or "no tensors"


def _check_kind(path: Path | str, key: str, tensor: Array, spec: TensorSpec) -> None:
    kinds = {"float": "f", "float16": "f", "int": "iu", "bool": "b"}[spec.kind]
    is_other_float = spec.kind == "float16" and tensor.dtype != np.float16
    # Other whole numbers overflow, or cannot be indices; no system writes them.
    is_other_int = spec.kind == "int" and tensor.dtype not in (np.int32, np.int64)
    if tensor.dtype.kind not in kinds or is_other_float or is_other_int:
        raise RunError(
            f"{path}: tensor {key!r} holds {tensor.dtype} numbers; expected {spec.kind}",
            hint=_HINT,
        )


def _check_shape(
    path: Path | str, key: str, shape: tuple[int, ...], spec: TensorSpec, bound: dict[str, int]
) -> None:
    """Compare a shape with its spec; a name that is met for the first time takes the size seen."""
    matches = len(shape) == len(spec.shape)
    for size, seen in zip(spec.shape, shape, strict=False):
        expected = bound.setdefault(size, seen) if isinstance(size, str) else size
        matches &= expected is None or expected == seen
    if not matches:
        expected_shape = ", ".join(_describe(size, bound) for size in spec.shape)
        raise RunError(
            f"{path}: tensor {key!r} has shape {shape}; expected ({expected_shape})",
            hint=_HINT,
        )


def _describe(size: Size, bound: Sizes) -> str:
    if isinstance(size, str):
        return f"{size}={bound[size]}" if size in bound else size
    return "any" if size is None else str(size)


def _check_values(path: Path | str, key: str, tensor: Array, spec: TensorSpec) -> None:
    for block in _split_values(tensor, spec):
        if spec.kind in ("float", "float16") and spec.finite and not np.isfinite(block).all():
            raise RunError(f"{path}: tensor {key!r} holds values that are not finite", hint=_HINT)
        is_low = spec.minimum is not None and block.min().item() < spec.minimum
        is_high = spec.maximum is not None and block.max().item() > spec.maximum
        if is_low or is_high:
            raise RunError(
                f"{path}: tensor {key!r} holds the value {block.min() if is_low else block.max()}; "
                f"expected {_describe_range(spec)}",
                hint=_HINT,
            )


def _describe_range(spec: TensorSpec) -> str:
    if spec.minimum is None:
        return f"at most {spec.maximum}"
    if spec.maximum is None:
        return f"at least {spec.minimum}"
    return f"{spec.minimum} to {spec.maximum}"


def _split_values(tensor: Array, spec: TensorSpec) -> Iterator[Array]:
    """Yield the values to check in blocks, so that a mapped array is never copied whole."""
    has_range = spec.minimum is not None or spec.maximum is not None
    if not has_range and (not spec.finite or spec.kind in ("int", "bool")):
        return
    flat = tensor.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK]


def save_csr(folder: Path, name: str, matrix: csr_array, **more: Array) -> None:
    """Write a sparse matrix, and tensors that belong to it, under one name."""
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    shape = np.array(matrix.shape, dtype=np.int64)
    save_tensors(folder, name, {**parts, "shape": shape, **more})


def load_csr(
    folder: Path,
    name: str,
    shape: tuple[Size, Size],
    *,
    more: Specs | None = None,
    sizes: Sizes | None = None,
    minimum: float | None = None,
    maximum: float = MAX_WEIGHT,
) -> tuple[csr_array, dict[str, Array]]:
    """Read what `save_csr` wrote: the sparse matrix, memory-mapped, and its other tensors.

    Refuses pointers that do not rise from 0 to the number of values, column numbers outside the
    matrix, values that are not from `minimum` (or -`maximum`) to `maximum`, and a shape that does
    not match. `shape` and the specs of `more` share the names of their sizes.
    """
    path = _shard_path(folder, name, 0)
    tensors = read_tensors(folder, name)
    seen = _read_shape(path, tensors)
    bound = dict(sizes or {})
    _check_shape(path, "matrix", seen, TensorSpec(shape), bound)
    low = -maximum if minimum is None else minimum
    specs = {
        "data": TensorSpec(("values of the matrix",), minimum=low, maximum=maximum),
        "indices": TensorSpec(("values of the matrix",), "int", minimum=0, maximum=seen[1] - 1),
        "indptr": TensorSpec((seen[0] + 1,), "int", minimum=0),
        "shape": TensorSpec((2,), "int", minimum=0),
    }
    check_tensors(path, tensors, {**specs, **(more or {})}, bound)
    data, indices, indptr = (tensors.pop(key) for key in ("data", "indices", "indptr"))
    del tensors["shape"]
    if indptr[0] != 0 or indptr[-1] != len(data) or np.any(indptr[1:] < indptr[:-1]):
        raise RunError(
            f"{path}: tensor 'indptr' does not rise from 0 to the {len(data):,} values", hint=_HINT
        )
    if data.dtype == np.float16:  # SciPy cannot compute with it
        data = data.astype(np.float32)
    return csr_array((data, indices, indptr), shape=seen), tensors


def _read_shape(path: Path, tensors: Mapping[str, Array]) -> tuple[int, int]:
    """Return the rows and columns of a saved sparse matrix."""
    shape = tensors.get("shape", np.empty(0))
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise RunError(
            f"{path}: not a sparse matrix; tensor 'shape' must hold two whole numbers", hint=_HINT
        )
    return int(shape[0]), int(shape[1])


def save_tensors(
    folder: Path, name: str, tensors: Mapping[str, Array], *, shard_bytes: int = 2**62
) -> None:
    """Write arrays as `name.safetensors`, or as name-0001.safetensors ... of at most `shard_bytes`.

    An array larger than a shard is cut along its first axis. A JSON index lists, for each array,
    the shards of its parts.
    """
    shards: list[dict[str, Array]] = [{}]
    index: dict[str, list[int]] = {}
    room = shard_bytes
    for key, array in tensors.items():
        for number, part in enumerate(_cut(np.asarray(array, order="C"), shard_bytes)):
            if part.nbytes > room and shards[-1]:
                shards.append({})
                room = shard_bytes
            shards[-1][f"{key}.{number}"] = part
            index.setdefault(key, []).append(len(shards) - 1)
            room -= part.nbytes
    for number, shard in enumerate(shards):
        write_tensors(_shard_path(folder, name, number), shard)
    write_text(_index_path(folder, name), json.dumps(index) + "\n")


def _cut(array: Array, limit: int) -> list[Array]:
    if array.nbytes <= limit or array.ndim == 0:
        return [array]
    rows = max(1, limit // max(1, array.nbytes // len(array)))
    return [array[start : start + rows] for start in range(0, len(array), rows)]


def load_tensor_file(path: Path, specs: Specs, sizes: Sizes | None = None) -> dict[str, Array]:
    """Read one safetensors file that has no index, and check it as `load_tensors` does."""
    tensors = map_tensor_file(path)
    check_tensors(path, tensors, specs, sizes)
    return tensors


def read_tensors(folder: Path, name: str) -> dict[str, Array]:
    """Read what `save_tensors` wrote without specs; arrays in one part are memory-mapped.

    For arrays whose names and shapes the caller cannot know; a run folder is read by
    `load_tensors`.
    """
    index = _read_index(_index_path(folder, name))
    shards = {
        number: map_tensor_file(_shard_path(folder, name, number))
        for number in sorted({number for numbers in index.values() for number in numbers})
    }
    tensors: dict[str, Array] = {}
    for key, numbers in index.items():
        try:
            parts = [shards[number][f"{key}.{i}"] for i, number in enumerate(numbers)]
            tensors[key] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        except (KeyError, ValueError) as error:
            raise RunError(
                f"{_index_path(folder, name)}: tensor {key!r:.80} cannot be put together from the "
                f"{len(numbers)} parts listed ({error!s:.200})",
                hint=_HINT,
            ) from error
    return tensors


def _read_index(path: Path) -> dict[str, list[int]]:
    """Read the shard numbers of each tensor."""
    index = load_json(path, dict[str, list[int]])
    numbers = [number for shards in index.values() for number in shards]
    if not all(index.values()) or not all(0 <= number < MAX_SHARDS for number in numbers):
        raise RunError(f"{path}: not an index of tensors: names with shard numbers", hint=_HINT)
    return index


def map_tensor_file(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file as views into one memory map."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy"):  # refuses a header that does not match the file
            pass
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        stored = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        data = np.memmap(path, mode="r", dtype=np.uint8, offset=8 + size) if stored else _EMPTY
        return {key: _view(data, entry) for key, entry in header.items()}
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{path}: not a readable safetensors file ({error})", hint=_HINT) from error


_EMPTY = np.empty(0, np.uint8)


def _view(data: Array, entry: Mapping[str, Any]) -> Array:
    """Return one array of a shard, by its entry in the header."""
    start, end = entry["data_offsets"]
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    flat = np.empty(0, dtype) if start == end else data[start:end].view(dtype)
    return flat.reshape(entry["shape"])


def _index_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.index.json"


def _shard_path(folder: Path, name: str, number: int) -> Path:
    return folder / (f"{name}.safetensors" if number == 0 else f"{name}-{number:04}.safetensors")
