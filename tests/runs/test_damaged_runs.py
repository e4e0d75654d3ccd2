"""Run folders damaged by somebody who also renews the digests are refused when they are loaded.

Each case is a seed of attack/run_folders.py: version 0.1 raised another exception, or used the run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import ontodex
from ontodex.errors import RunError

RUNS = Path(__file__).parent / "0.1"


def damage(system: str, tmp_path: Path, file: str, change: Callable[[Path], None]) -> Path:
    """Copy a run, change one file, and renew the digests."""
    folder = tmp_path / system
    shutil.copytree(RUNS / system, folder)
    change(folder / file)
    if file != "manifest.json":
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["files"] = {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in manifest["files"]
            if (folder / name).exists()
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def set_json(*keys: Any) -> Callable[[Path], None]:
    """Return a change that sets the last of `keys` at the place of the others."""
    *places, last, value = keys

    def change(path: Path) -> None:
        table = inner = json.loads(path.read_text())
        for place in places:
            inner = inner[place]
        inner[last] = value
        path.write_text(json.dumps(table))

    return change


def set_tensor(name: str, compute: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        tensors = load_file(path)
        tensors[name] = np.ascontiguousarray(compute(tensors[name].copy()))
        path.unlink()  # the old file may be mapped
        save_file(tensors, path)

    return change


def put(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def compute(tensor: np.ndarray) -> np.ndarray:
        tensor.reshape(-1)[0] = value
        return tensor

    return compute


def replace_text(old: str, new: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(path.read_text().replace(old, new, 1))


DEEP = "[" * 100_000 + "]" * 100_000
CASES = {
    "weights that are nan": (
        "kernel", "model/landmarks.safetensors", set_tensor("weights.0", put(np.nan))
    ),
    "weights that are huge": (
        "kernel", "model/landmarks.safetensors", set_tensor("weights.0", put(3e38))
    ),
    "idf of huge negative numbers": (
        "kernel", "model/idf.safetensors", set_tensor("idf", lambda idf: idf * 0 - 3e38)
    ),
    "a scale of 0": ("lexical", "model/lexical.safetensors", set_tensor("scale.0", put(0))),
    "one weight too few": (
        "lexical", "model/lexical.safetensors", set_tensor("weights.0", lambda w: w[:-1])
    ),
    "negative counts": ("lexical", "model/lexical.safetensors", set_tensor("right.0", put(-9))),
    "numbers that cannot be indices": (
        "parabel", "model/trees.safetensors", set_tensor("roots.0", lambda r: r.astype(np.uint64))
    ),
    "no roots": ("parabel", "model/trees.safetensors", set_tensor("roots.0", lambda r: r[:0])),
    "labels that vote with 1000": (
        "knn", "model/gold.safetensors", set_tensor("data.0", put(1000))
    ),
    "a node with a negative number": (
        "lightattention", "model/tree.safetensors", set_tensor("order.0", put(-1))
    ),
    "node parameters that are not finite": (
        "lightattention", "model/tables.safetensors", set_tensor("level-2.0", put(np.inf))
    ),
    "a shard number that is no number": (
        "attentionxml", "model/network.index.json", set_json("read_out.weight", -(2**31))
    ),
    "a deep index": ("dxml", "model/centres.index.json", lambda path: path.write_text(DEEP)),
    "a missing index": ("dxml", "model/memory.index.json", lambda path: path.unlink()),
    "a number of labels below 0": ("bowcnn", "model/network.json", set_json("n_labels", -127)),
    "a number of labels that is too large": (
        "xmlcnn", "model/network.json", set_json("n_labels", 10**12)
    ),
    "layers of a million units": (
        "averaged", "model/model.json", set_json("config", "size", 10**9)
    ),
    "no settings": ("xmlrnn", "model/network.json", replace_text('"settings"', '"other"')),
    "lemmas of no language": ("xmlcnn", "model/network.json", set_json("settings", "lemmas", "0")),
    "epochs that are a word": ("averaged", "model/model.json", set_json("epochs", "en")),
    "neighbours below 1": ("knn", "model/model.json", set_json("chosen", "neighbours", 0)),
    "no neighbours": ("knn", "model/model.json", set_json("chosen", 1e-320)),
    "probes that are a list": ("dxml", "model/model.json", set_json("chosen", "probe", [1])),
    "a kind of features that is none": ("linear", "model/matrix.json", set_json("kind", True)),
    "settings that are a list": ("linear", "model/model.json", set_json("config", [1, 2])),
    "levels without a column": (
        "levelwise", "model/levelwise.json", set_json("levels", 0, "columns", 0, 10**6)
    ),
    "passes that are a text": ("levelwise", "model/levelwise.json", set_json("passes", "2")),
    "falling quantiles": (
        "levelwise", "model/levelwise.json", set_json("sampling", "sums", 0, 1e300)
    ),
    "thresholds below 0": (
        "levelwise", "model/ofo2.safetensors", set_tensor("thresholds.0", put(-1))
    ),
    "a column outside the labels": (
        "linear", "decision.json", set_json("values", "values", "at", 0, -5)
    ),
    "an infinite column": (
        "kernel", "decision.json", set_json("values", "values", "at", float("inf"))
    ),
    "a deep decision": ("rankae", "decision.json", lambda path: path.write_text(DEEP)),
    "no label": (
        "popularity", "labels.tsv",
        lambda path: path.write_text(path.read_text().partition("\n")[0] + "\n"),
    ),
    "a label twice": ("linear", "labels.tsv", replace_text("\nC0108\t", "\nC0103\t")),
    "a frequency above the documents": (
        "popularity", "labels.tsv", replace_text("C0103\t2", "C0103\t2000")
    ),
    "labels that are not UTF-8": (
        "popularity", "labels.tsv", lambda path: path.write_bytes(b"\xff" + path.read_bytes())
    ),
    "settings that are no table": (
        "popularity", "config.toml", lambda path: path.write_text("model = 3\n")
    ),
    "digests that are numbers": (
        "popularity", "manifest.json", set_json("files", "labels.tsv", 3)
    ),
    "a language that there is not": ("lexical", "manifest.json", set_json("languages", ["x"])),
    "documents that are no number": (
        "popularity", "manifest.json", set_json("train", "documents", "many")
    ),
    "rows longer than 1": (
        "kernel", "model/landmarks.safetensors", set_tensor("data.0", put(65504))
    ),
    "names that are right too often": (
        "lexical", "model/lexical.safetensors", set_tensor("right.0", lambda right: right * 0 + 248)
    ),
    "no clusters": ("dxml", "model/centres.safetensors", set_tensor("centres.0", lambda c: c[:0])),
    "layers without end": (
        "lightattention", "model/network.json", set_json("settings", "layers", 2**31)
    ),
    "widths without end": (
        "levelwise", "model/levelwise.json", set_json("settings", "hidden", 8 * 10**9)
    ),
    "a bag without end": (
        "lightattention", "model/network.json", set_json("settings", "bag", 8 * 10**9)
    ),
    "neighbours without end": (
        "levelwise-pointer", "model/levelwise.json", set_json("settings", "neighbours", 10**10)
    ),
    "a consensus of a weight that is a text": (
        "consensus", "model/consensus.json", set_json("weights", 0, "x")
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_run_is_refused_when_it_is_loaded(case, tmp_path):
    system, file, change = CASES[case]
    folder = damage(system, tmp_path, file, change)
    with pytest.raises(RunError) as caught:
        ontodex.load(folder)
    assert len(str(caught.value)) < 1000


def test_renewed_digests_alone_change_nothing(tmp_path):
    folder = damage("linear", tmp_path, "model/model.json", lambda path: None)
    assert ontodex.load(folder).suggest("rodent control")


def test_the_depth_of_a_consensus_takes_no_more_memory_than_there_are_labels(tmp_path):
    folder = damage("consensus", tmp_path, "model/consensus.json", set_json("depth", 2**31))
    assert ontodex.load(folder).suggest("rodent control")


def test_half_precision_in_a_sparse_matrix_is_computed_with(tmp_path):
    change = set_tensor("data.0", lambda data: data.astype(np.float16))
    folder = damage("dxml", tmp_path, "model/gold.safetensors", change)
    assert ontodex.load(folder).explain("rodent control").probability > 0
