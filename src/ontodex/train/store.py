"""The run folder: what a training leaves behind, self-contained, in plain files.

    config.toml     every setting, resolved              labels.tsv     column -> concept, frequency
    model/          the system (safetensors, JSON, TSV)  ontology.json  where there is an ontology
    decision.json   how rankings become label sets       metrics.json, report.html, log.jsonl
    manifest.json   written last: format version and SHA-256 of every file that loading trusts

A folder without a manifest is a training that has not finished. Loading refuses whatever does not
match the manifest; nothing is ever unpickled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.config import Table
from ontodex.config import read as read_config
from ontodex.errors import RunError
from ontodex.files import digest, write_tensors, write_text
from ontodex.types import LabelSpace, Ontology

FORMAT = 1
OLDEST_FORMAT = 1
# What is written after training (evaluations, logs) may change without making the model untrue.
UNTRUSTED = {"manifest.json", "metrics.json", "report.html", "log.jsonl"}
SUFFIXES = {".safetensors", ".json", ".tsv", ".txt", ".toml", ".html", ".jsonl", ".npy", ".png"}


def save_labels(labels: LabelSpace, path: Path) -> None:
    """Columns in order: id, training frequency, name; the name is for readers, not for loading."""
    for label in labels.ids:
        if any(character in label for character in "\t\r\n"):
            raise RunError(
                f"label {label!r} has a tab or a line break, which labels.tsv cannot hold",
                hint="rename the label in the corpus",
            )
    rows = (
        f"{label}\t{frequency}\t{' '.join(labels.name(column).split())}\n"
        for column, (label, frequency) in enumerate(zip(labels.ids, labels.frequency, strict=True))
    )
    write_text(path, f"label\tfrequency in {labels.n_docs} documents\tname\n" + "".join(rows))


def load_labels(path: Path, ontology: Ontology | None = None) -> LabelSpace:
    """What `save_labels` wrote."""
    header, *rows = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    try:
        n_docs = int(header.split(" in ")[1].split()[0])
        pairs = [row.split("\t", 2) for row in rows]
        frequency = np.array([int(pair[1]) for pair in pairs], dtype=np.int64)
    except (ValueError, IndexError) as error:
        raise RunError(f"{path}: not a list of labels as training writes it ({error})") from error
    return LabelSpace(tuple(pair[0] for pair in pairs), frequency, n_docs, ontology)


def save_tensors(
    folder: Path, name: str, tensors: Mapping[str, NDArray[Any]], *, shard_bytes: int = 2**62
) -> None:
    """Write arrays as `name.safetensors`, or as name-0001.safetensors ... of at most `shard_bytes`.

    An array larger than a shard is cut along its first axis; a JSON index says what lies where.
    """
    shards: list[dict[str, NDArray[Any]]] = [{}]
    index: dict[str, list[int]] = {}
    room = shard_bytes
    for key, array in tensors.items():
        for number, piece in enumerate(_pieces(np.asarray(array, order="C"), shard_bytes)):
            if piece.nbytes > room and shards[-1]:
                shards.append({})
                room = shard_bytes
            shards[-1][f"{key}.{number}"] = piece
            index.setdefault(key, []).append(len(shards) - 1)
            room -= piece.nbytes
    for number, shard in enumerate(shards):
        write_tensors(_shard(folder, name, number), shard)
    write_text(folder / f"{name}.index.json", json.dumps(index) + "\n")


def load_tensors(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    """What `save_tensors` wrote; arrays in one piece are memory-mapped, not read."""
    index = json.loads((folder / f"{name}.index.json").read_text())
    arrays: dict[str, NDArray[Any]] = {}
    shards: dict[int, dict[str, NDArray[Any]]] = {}
    for key, numbers in index.items():
        for number in set(numbers) - shards.keys():
            shards[number] = _map_shard(_shard(folder, name, number))
        pieces = [shards[number][f"{key}.{i}"] for i, number in enumerate(numbers)]
        arrays[key] = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    return arrays


_DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BOOL": np.bool_,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
}  # fmt: skip


def _map_shard(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file as views into one memory map."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy"):  # refuses headers that lie about the file
            pass
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        data = np.memmap(path, mode="r", dtype=np.uint8, offset=8 + size) if header else None
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{path}: not a readable safetensors file ({error})") from error
    arrays: dict[str, NDArray[Any]] = {}
    for key, about in header.items():
        if key == "__metadata__":
            continue
        start, end = about["data_offsets"]
        dtype = np.dtype(_DTYPES[about["dtype"]])
        flat = np.empty(0, dtype) if start == end or data is None else data[start:end].view(dtype)
        arrays[key] = flat.reshape(about["shape"])
    return arrays


def _pieces(array: NDArray[Any], limit: int) -> list[NDArray[Any]]:
    if array.nbytes <= limit or array.ndim == 0:
        return [array]
    rows = max(1, limit // max(1, array.nbytes // len(array)))
    return [array[start : start + rows] for start in range(0, len(array), rows)]


def _shard(folder: Path, name: str, number: int) -> Path:
    return folder / (f"{name}.safetensors" if number == 0 else f"{name}-{number:04}.safetensors")


def finish(folder: Path, about: Mapping[str, Any]) -> None:
    """Write the manifest: from now on the folder is a run."""
    files = {
        str(path.relative_to(folder)): digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in UNTRUSTED and not path.name.startswith(".")
    }
    manifest = {"format": FORMAT, **about, "files": files}
    write_text(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")


def is_finished(folder: Path) -> bool:
    return (folder / "manifest.json").exists()


def verify(folder: Path) -> dict[str, Any]:
    """The manifest of a run whose files are all as they were written; anything else is refused."""
    if not folder.is_dir():
        what = "is a file, not a run folder" if folder.exists() else "there is no such run folder"
        raise RunError(f"{folder}: {what}", hint="train one: ontodex train")
    if not is_finished(folder) and not (folder / "config.toml").exists():
        raise RunError(
            f"{folder}: not a run folder, for it has neither manifest.json nor config.toml",
            hint="name the folder that was the --out of ontodex train",
        )
    if not is_finished(folder):
        raise RunError(
            f"{folder}: no manifest.json, so this is not a finished run",
            hint="start the same `ontodex train ... --out` again: it goes on where it stopped",
        )
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        version, files = manifest["format"], dict(manifest["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder}/manifest.json: damaged ({error})") from error
    if not isinstance(version, int) or not OLDEST_FORMAT <= version <= FORMAT:
        raise RunError(
            f"{folder}: written in run format {version}; this version reads "
            f"{OLDEST_FORMAT} to {FORMAT}",
            hint="use the ontodex version that wrote it, or train again",
        )
    for name, expected in files.items():
        _verify_file(folder, name, expected)
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise RunError(f"{path}: a link inside a run folder is refused")
        trusted = str(path.relative_to(folder)) in files or path.name in UNTRUSTED
        if path.is_file() and not trusted and path.parent != folder:
            raise RunError(f"{path}: not in the manifest of this run", hint="remove it")
    return manifest


def _verify_file(folder: Path, name: str, expected: str) -> None:
    path = folder / name
    if ".." in Path(name).parts or Path(name).is_absolute() or path.suffix not in SUFFIXES:
        raise RunError(f"{folder}/manifest.json names {name!r}, which no run contains")
    if not path.is_file() or path.is_symlink():
        raise RunError(f"{path}: missing from the run folder", hint="copy the whole folder again")
    seen = digest(path)
    if seen != expected:
        raise RunError(
            f"{path}: changed since it was written (SHA-256 {seen[:12]}..., "
            f"manifest says {expected[:12]}...)",
            hint="copy the run folder again, or train again",
        )


def earlier_seconds(folder: Path) -> float:
    """Seconds that processes before this one worked below a folder, each from its start to the last
    file that it wrote (a kill leaves nothing better); this one starts now."""
    clock = folder / "clock.json"
    spent = 0.0
    if clock.exists():
        before = json.loads(clock.read_text(encoding="utf-8"))
        last = max(path.stat().st_mtime for path in folder.rglob("*"))
        spent = before["spent"] + max(0.0, last - before["started"])
    write_text(clock, json.dumps({"spent": spent, "started": time.time()}) + "\n")
    return spent


def load_config(folder: Path) -> Table:
    return read_config(folder / "config.toml")
