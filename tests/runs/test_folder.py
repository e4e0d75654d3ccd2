"""Run folders: complete, damaged, of other versions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from ontodex.errors import RunError
from ontodex.runs.folder import load_labels, save_labels
from ontodex.runs.run import load
from ontodex.types import LabelSpace


def test_a_run_copied_elsewhere_answers_the_same(folder, copy):
    assert load(copy).suggest("text") == load(folder).suggest("text")


def test_labels_survive_the_run_folder(folder):
    labels = load(folder).labels
    assert labels.ids == ("fish", "oak", "animals", "newt")
    assert labels.n_seen == 2
    assert labels.frequency[0] == labels.n_docs
    assert labels.ontology is not None
    assert labels.ontology.path("newt") == ["animals", "newt"]


@pytest.mark.parametrize("name", ["labels.tsv", "config.toml", "decision.json", "ontology.json"])
def test_a_changed_file_is_refused(copy, name):
    (copy / name).write_text((copy / name).read_text() + "\n")
    with pytest.raises(RunError, match=rf"{name}: changed since it was written"):
        load(copy)


def test_a_missing_file_is_refused(copy):
    (copy / "labels.tsv").unlink()
    with pytest.raises(RunError, match=r"labels\.tsv: missing"):
        load(copy)


def test_a_file_that_the_manifest_does_not_name_is_refused(copy):
    (copy / "model" / "extra.bin").write_bytes(b"\x80\x04")
    with pytest.raises(RunError, match="not in the manifest"):
        load(copy)


def test_a_link_inside_a_run_is_refused(copy):
    (copy / "model" / "link").symlink_to("/etc/hostname")
    with pytest.raises(RunError, match="link"):
        load(copy)


@pytest.mark.parametrize("name", ["manifest.json", "labels.tsv", "log.jsonl", "model/README.md"])
def test_a_pipe_or_a_link_is_refused_before_anything_is_read(copy, name):
    """Reading a pipe waits for ever, and /dev/zero fills the memory. Some have no digest."""
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"].pop(name, None)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    (copy / name).unlink(missing_ok=True)
    os.mkfifo(copy / name)
    with pytest.raises(RunError, match="not a regular file"):
        load(copy)
    (copy / name).unlink()
    (copy / name).symlink_to("/dev/zero")
    with pytest.raises(RunError, match="links inside"):
        load(copy)


def test_a_file_with_a_name_that_no_disk_takes_is_refused(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"]["a" * 300 + ".json"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="which is too long"):
        load(copy)


def test_a_manifest_that_points_outside_is_refused(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"]["../outside.tsv"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="which no run contains"):
        load(copy)


def test_a_run_of_a_future_format_is_refused_with_both_versions(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["format"] = 99
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="run format 99; this version reads 1 to 1"):
        load(copy)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 1}', "null"])
def test_a_damaged_manifest_is_refused(copy, damage):
    (copy / "manifest.json").write_text(damage)
    with pytest.raises(RunError):
        load(copy)


def test_a_path_that_is_not_a_run_is_not_mistaken_for_an_unfinished_run(tmp_path):
    (tmp_path / "file").write_text("x")
    for place, output in ((tmp_path, "not a run folder"), (tmp_path / "file", "is a file")):
        with pytest.raises(RunError, match=output):
            load(place)


def test_a_label_with_a_tab_is_refused_by_name(tmp_path):
    labels = LabelSpace(("a\tb",), np.array([1]), 1)
    with pytest.raises(RunError, match=r"'a\\tb' has a tab"):
        save_labels(labels, tmp_path / "labels.tsv")


def test_a_table_without_labels_is_refused(tmp_path):
    """Training writes none; evaluation of a run with one would fail inside."""
    table = tmp_path / "labels.tsv"
    table.write_text("label\tfrequency in 3 documents\tname\na\t1\ta\n")
    assert load_labels(table).ids == ("a",)
    table.write_text("label\tfrequency in 3 documents\tname\n")
    with pytest.raises(RunError, match="has no label"):
        load_labels(table)


def test_the_format_of_the_first_version_can_still_be_read():
    """This folder was written by the first version; it stays as it is."""
    old = Path(__file__).parent / "format-1"
    assert [s.name for s in load(old).suggest("text", limit=2)] == ["Fish", "Oak"]
