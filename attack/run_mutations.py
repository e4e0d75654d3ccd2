"""Damage the files of a run folder as somebody would who knows their formats.

A mutation changes one file, or exchanges two, and says what it did. The caller renews the digests.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Files = dict[str, bytes]
Array = NDArray[Any]

_NAMES = {
    "<f8": "F64", "<f4": "F32", "<f2": "F16", "|b1": "BOOL", "<i8": "I64", "<i4": "I32",
    "<i2": "I16", "|i1": "I8", "<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8",
}  # fmt: skip
_TYPES = {name: np.dtype(code) for code, name in _NAMES.items()}
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 10**6, 2**31, -(2**31), 2**63, -(2**63), 10**30, 0.5, -0.5,
    1e-320, 1e300, math.nan, math.inf, -math.inf, "", "x", "0", "en", "é\ud800", "\0", "../x",
    [], [0], [-1], [1, 2, 3], [None], ["a", "b"], [[1.0], [2.0]], {}, {"x": 1}, {"columns": 3},
)  # fmt: skip
_NUMBERS = (math.nan, math.inf, -math.inf, 3e38, -3e38, 65504, -1, 0, 1, 2, 1e-30, 1e5, 2**31 - 1)
_WHOLE = (-1, 0, 1, 2, 10**4, 2**31 - 1, -(2**31), 2**62, -(2**62))


def mutate(files: Files, draw: random.Random) -> tuple[Files, str]:
    """Return the files with one change, and a description of it."""
    names = [name for name in files if name != "manifest.json"]
    # Files of the system are most of the attack; ontology.json has a campaign of its own.
    weights = [8 if name.startswith("model/") else 1 if "ontology" in name else 4 for name in names]
    name = draw.choices(names, weights)[0]
    if draw.random() < 0.03:
        return _exchange(files, draw)
    if draw.random() < 0.03:
        return _mutate_manifest(files, draw)
    changed = dict(files)
    content, what = _choose_mutation(name, draw)(files[name], draw)
    if content is None:
        del changed[name]
    else:
        changed[name] = content
    return changed, f"{name}: {what}"


Changed = tuple[bytes | None, str]
Mutation = Callable[[bytes, random.Random], Changed]


def _choose_mutation(name: str, draw: random.Random) -> Mutation:
    if draw.random() < 0.08:
        return _mutate_bytes
    if name.endswith(".safetensors"):
        return _mutate_tensors
    if name.endswith(".json") and not name.endswith("ontology.json"):
        return _mutate_json
    return _mutate_lines


def _exchange(files: Files, draw: random.Random) -> tuple[Files, str]:
    """Exchange two files of one kind."""
    ending = draw.choice([".safetensors", ".json", ""])
    names = [name for name in files if name.endswith(ending) and name != "manifest.json"]
    if len(names) < 2:
        names = [name for name in files if name != "manifest.json"]
    one, two = draw.sample(names, 2)
    return {**files, one: files[two], two: files[one]}, f"{one} and {two} exchanged"


def _mutate_manifest(files: Files, draw: random.Random) -> tuple[Files, str]:
    content, what = _mutate_json(files["manifest.json"], draw)
    return {**files, "manifest.json": content or b""}, f"manifest.json: {what}"


def _mutate_bytes(content: bytes, draw: random.Random) -> Changed:
    """Remove, empty, cut, repeat or overwrite bytes."""
    kind = draw.choice(["removed", "emptied", "cut", "overwritten", "bytes inserted", "doubled"])
    place = draw.randrange(len(content) + 1)
    piece = bytes(draw.choice([0, 10, 34, 91, 123, 128, 255]) for _ in range(draw.randint(1, 9)))
    if kind == "removed":
        return None, kind
    if kind == "emptied":
        return b"", kind
    if kind == "cut":
        return content[:place], f"cut to {place} bytes"
    if kind == "doubled":
        return content + content, kind
    after = place + (len(piece) if kind == "overwritten" else 0)
    return content[:place] + piece + content[after:], f"{kind} at {place}: {piece!r}"


def _mutate_lines(content: bytes, draw: random.Random) -> Changed:
    """Change the lines of a text file, or one field of a line."""
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    if draw.random() < 0.25 and len(lines) > 1:
        place = draw.choice([0, 1, len(lines) - 1])
    kind = draw.choice(["line removed", "line repeated", "lines swapped", "field", "field", "long"])
    line = lines[place]
    if kind == "line removed":
        del lines[place]
    elif kind == "line repeated":
        lines[place:place] = [line] * draw.choice([1, 1, 1000])
    elif kind == "lines swapped":
        other = draw.randrange(len(lines))
        lines[place], lines[other] = lines[other], line
    elif kind == "long":
        lines[place] = line + draw.choice([b"\t", b" ", b"x", b"[", b'{"a":']) * 100_000
    else:
        lines[place] = _change_field(line, draw)
    shown = lines[place][:60] if place < len(lines) else b""
    return b"\n".join(lines), f"{kind} at line {place + 1}: {shown!r}"


def _change_field(line: bytes, draw: random.Random) -> bytes:
    mark = draw.choice([m for m in (b"\t", b" = ", b" ", b",") if m in line] or [b"\t"])
    fields = line.split(mark)
    values = (
        b"-1", b"0", b"1", b"99999999999999999999", b"nan", b"inf", b"1e400", b"x", b"", b"[]",
        b"true", b'"x"', b"\xff", b"\r", b"{}", b"2.5", b"1000000000", b"1_0", b"[1, 2]", b"null",
    )  # fmt: skip
    fields[draw.randrange(len(fields))] = draw.choice(values)
    return mark.join(fields)


def _mutate_json(content: bytes, draw: random.Random) -> Changed:
    """Change a value of a JSON file, remove it, add one, or nest it deeply."""
    try:
        table = json.loads(content)
    except (ValueError, RecursionError):  # an earlier change broke it, or nested it deeply
        return _mutate_bytes(content, draw)
    holder, key = draw.choice(list(_walk(table)) or [({"": table}, "")])
    kind = draw.choices(["value", "removed", "added", "deep", "scaled"], [8, 3, 2, 1, 4])[0]
    value = draw.choice(_VALUES)
    if kind == "removed":
        del holder[key]
    elif kind == "added" and isinstance(holder, dict):
        holder["further"] = value
    elif kind == "added":
        holder.extend([value] * draw.choice([1, 1, 5000]))
    elif kind == "scaled" and type(holder[key]) in (int, float):
        value = holder[key] * draw.choice([-1, 0, 2, 1.5, 1000, 10**9]) + draw.choice([0, 1, -1])
        holder[key] = value
    elif kind != "deep":
        holder[key] = value
    text = json.dumps(table)
    if kind == "deep":
        depth = draw.choice([200, 100_000])
        text = json.dumps(table).replace(json.dumps(holder[key]), "[" * depth + "]" * depth, 1)
    return text.encode("utf-8", "surrogatepass"), f"{kind} at {key!r}: {value!r:.60}"


def _walk(value: Any) -> Any:
    """Yield each container of a JSON value with each of its keys; long lists give a few places."""
    if isinstance(value, dict):
        places: Any = list(value)
    elif isinstance(value, list):
        places = sorted({0, len(value) // 2, len(value) - 1}) if value else []
    else:
        return
    for place in places:
        yield value, place
        yield from _walk(value[place])


def _mutate_tensors(content: bytes, draw: random.Random) -> Changed:
    """Change one tensor of a safetensors file, or the header."""
    tensors = read_tensors(content)
    if not tensors or draw.random() < 0.1:
        return _mutate_header(content, draw)
    name = draw.choice(list(tensors))
    kind = draw.choices(
        ["values", "shape", "type", "removed", "added", "swapped", "shuffled"],
        [10, 4, 2, 1, 1, 2, 2],
    )[0]
    what = kind
    if kind == "values":
        tensors[name], what = _change_values(tensors[name], draw)
    elif kind == "shape":
        tensors[name], what = _change_shape(tensors[name], draw)
    elif kind == "type":
        code = draw.choice(list(_TYPES))
        with np.errstate(all="ignore"):
            tensors[name], what = tensors[name].astype(_TYPES[code]), f"as {code}"
    elif kind == "removed":
        del tensors[name]
    elif kind == "added":
        tensors["further.0"] = np.zeros(3, np.float32)
    elif kind == "swapped":
        other = draw.choice(list(tensors))
        tensors[name], tensors[other] = tensors[other], tensors[name]
        what = f"swapped with {other}"
    else:
        order = np.random.default_rng(draw.randrange(2**32)).permutation(tensors[name].size)
        tensors[name] = tensors[name].reshape(-1)[order].reshape(tensors[name].shape)
    return write_tensors(tensors), f"tensor {name} {what}"


def _change_values(tensor: Array, draw: random.Random) -> tuple[Array, str]:
    flat = tensor.reshape(-1).copy()
    if not flat.size:
        return tensor, "unchanged"
    values: Any = _NUMBERS if flat.dtype.kind == "f" else _WHOLE
    value = draw.choice((*values, flat.size - 1, flat.size, flat.size + 1))
    if flat.dtype.kind in "iu":
        bounds = np.iinfo(flat.dtype)
        value = min(max(value, bounds.min), bounds.max)
    elif flat.dtype.kind == "b":
        value = bool(value)
    where = draw.choice(["first", "last", "one", "many", "all", "reversed", "sorted"])
    if where == "reversed":
        return flat[::-1].reshape(tensor.shape), where
    if where == "sorted":
        return np.sort(flat).reshape(tensor.shape), where
    place: Any = {"first": 0, "last": -1, "all": slice(None)}.get(where, draw.randrange(flat.size))
    if where == "many":
        place = slice(0, None, draw.randint(2, 9))
    with np.errstate(all="ignore"):
        flat[place] = value
    return flat.reshape(tensor.shape), f"{where} value(s) {value}"


def _change_shape(tensor: Array, draw: random.Random) -> tuple[Array, str]:
    kind = draw.choice(["cut", "longer", "empty", "flat", "scalar", "transposed", "one more axis"])
    if kind == "flat" or not tensor.ndim:
        return tensor.reshape(-1), "flat"
    axis = draw.randrange(tensor.ndim)
    changed = {
        "cut": lambda: np.take(tensor, range(max(0, tensor.shape[axis] - 1)), axis),
        "longer": lambda: (
            np.concatenate([tensor, np.take(tensor, range(1), axis)], axis)
            if tensor.shape[axis]
            else tensor
        ),
        "empty": lambda: np.take(tensor, [], axis),
        "scalar": lambda: tensor.reshape(-1)[:1].reshape(()) if tensor.size else tensor,
        "transposed": lambda: tensor.T,
        "one more axis": lambda: tensor[None],
    }[kind]()
    return changed, f"{kind}: shape {changed.shape}"


def _mutate_header(content: bytes, draw: random.Random) -> Changed:
    """Change the JSON header of a safetensors file; the data stay."""
    size = int.from_bytes(content[:8], "little")
    header, what = _mutate_json(content[8 : 8 + size] or b"{}", draw)
    header = header or b""
    return len(header).to_bytes(8, "little") + header + content[8 + size :], f"header: {what}"


def read_tensors(content: bytes) -> dict[str, Array]:
    """Return the arrays of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    data = content[8 + size :]
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], _TYPES[entry["dtype"]]).reshape(
            entry["shape"]
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }


def write_tensors(tensors: dict[str, Array]) -> bytes:
    """Return a safetensors file with these arrays."""
    header, parts, start = {}, [], 0
    for name, tensor in tensors.items():
        part = np.ascontiguousarray(tensor).tobytes()
        end = start + len(part)
        code = _NAMES[tensor.dtype.newbyteorder("<").str]
        header[name] = {"dtype": code, "shape": tensor.shape, "data_offsets": (start, end)}
        parts.append(part)
        start = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(parts)
