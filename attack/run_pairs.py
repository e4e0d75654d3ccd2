"""Damage several files of a run folder together, so that they agree with each other.

One changed file is refused because its sizes differ from those of the others. Here a row of a size,
such as the number of labels, is removed or repeated in every tensor, table and list of that size,
or a label gets another id in every file: what is left can be wrong only against what is meant.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from attack.run_mutations import Array, Files, mutate, read_tensors, write_tensors

ALL_PLACES = 0.7  # of the mutants; in the others some places keep the old size


def mutate_together(files: Files, draw: random.Random) -> tuple[Files, str]:
    """Return the files with a change of several of them, and a description of it."""
    kinds: list[Callable[[Files, random.Random], tuple[Files, str]]]
    kinds = [_resize, _resize, _resize, _rename_label, _mutate_twice]
    try:
        return draw.choice(kinds)(files, draw)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # The first of two changes may leave a file that cannot be read for the second.
        changed, what = mutate(files, draw)
        return changed, f"{what} (not together: {error})"


def _mutate_twice(files: Files, draw: random.Random) -> tuple[Files, str]:
    files, first = mutate(files, draw)
    files, second = mutate(files, draw)
    return files, f"{first}; {second}"


def _rename_label(files: Files, draw: random.Random) -> tuple[Files, str]:
    """Replace an id in all text files, or in all but one."""
    rows = files["labels.tsv"].split(b"\n")[1:-1]
    old = draw.choice(rows).split(b"\t")[0]
    others = [b"nature", b"newt", b"x", b"", b"\xe2\x80\xae", b"a" * 5000, draw.choice(rows)]
    new = draw.choice(others).split(b"\t")[0]
    names = [name for name, content in files.items() if old in content and _is_text(name)]
    left = draw.choice([*names, ""])
    changed = {name: files[name].replace(old, new) for name in names if name != left}
    return {**files, **changed}, f"{old!r} is {new[:20]!r} in {', '.join(changed)[:200]}"


def _is_text(name: str) -> bool:
    return not name.endswith((".safetensors", ".npy", "manifest.json", "config.toml"))


def _resize(files: Files, draw: random.Random) -> tuple[Files, str]:
    """Remove, repeat or empty the same row wherever something has the size."""
    size = _choose_size(files, draw)
    kind = draw.choice(["removed", "removed", "repeated", "emptied"])
    row = draw.choice([0, size - 1, draw.randrange(size)])
    change = _Resize(size, kind, row, draw, 1.0 if draw.random() < ALL_PLACES else 0.8)
    changed = {name: change.apply(name, content) for name, content in files.items()}
    found = [name for name in files if changed[name] != files[name]]
    return changed, f"row {row} of {size} {kind} in {', '.join(found)[:300]}"


def _choose_size(files: Files, draw: random.Random) -> int:
    """Return the number of labels, or a size that several tensors and lists have."""
    n_labels = len(files["labels.tsv"].split(b"\n")) - 2
    if draw.random() < 0.5 and n_labels:
        return n_labels
    counts: Counter[int] = Counter()
    for name, content in files.items():
        if name.endswith(".safetensors"):
            counts.update(size for one in read_tensors(content).values() for size in one.shape)
        elif name.startswith("model/") and _is_text(name):
            counts[content.count(b"\n")] += 1
    return draw.choice([size for size in counts if size > 0] or [n_labels])


class _Resize:
    """One change of a size, applied to files of every kind."""

    def __init__(self, size: int, kind: str, row: int, draw: random.Random, share: float) -> None:
        self.size, self.kind, self.row, self.draw, self.share = size, kind, row, draw, share

    def apply(self, name: str, content: bytes) -> bytes:
        if self.draw.random() > self.share or name == "ontology.json":
            return content
        if name.endswith(".safetensors"):
            tensors = read_tensors(content)
            return write_tensors({name: self._resize_tensor(one) for name, one in tensors.items()})
        if name.endswith(".json") and name != "manifest.json":
            return json.dumps(self._resize_json(json.loads(content))).encode()
        if name.endswith((".tsv", ".txt")):
            return self._resize_lines(content)
        return content

    def _list_rows(self) -> list[int]:
        """Return the old rows of the new ones."""
        rows = list(range(self.size))
        if self.kind == "emptied":
            return []
        if self.kind == "removed":
            rows.pop(self.row)
        else:
            rows.insert(self.row, self.row)
        return rows

    def _resize_tensor(self, tensor: Array) -> Array:
        rows = self._list_rows()
        for axis, size in enumerate(tensor.shape):
            if size == self.size:
                tensor = np.take(tensor, rows, axis)
            elif size == self.size + 1 and tensor.ndim == 1 and tensor.dtype.kind in "iu":
                # Where the rows of a sparse matrix begin, with its end.
                tensor = np.append(np.take(tensor, rows), tensor[-1:])
        if tensor.size and tensor.dtype.kind in "iu" and tensor.max() == self.size - 1 and rows:
            tensor = np.minimum(tensor, tensor.dtype.type(len(rows) - 1))  # columns of a matrix
        return tensor

    def _resize_json(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._resize_json(one) for key, one in value.items()}
        if isinstance(value, list):
            own = [self._resize_json(one) for one in value]
            return [own[row] for row in self._list_rows()] if len(own) == self.size else own
        if type(value) is int and value == self.size and self.draw.random() < 0.7:
            return len(self._list_rows())
        return value

    def _resize_lines(self, content: bytes) -> bytes:
        lines = content.removesuffix(b"\n").split(b"\n")
        n_heads = len(lines) - self.size
        if n_heads not in (0, 1):
            return content
        kept = [lines[n_heads + row] for row in self._list_rows()]
        if self.kind == "repeated" and kept:
            # Ids are unique; a repeated one would be refused at once.
            kept[self.row] = b"another-" + kept[self.row]
        return b"\n".join([*lines[:n_heads], *kept]) + b"\n"
