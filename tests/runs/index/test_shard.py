"""Inputs and slices in a worker: the same parts whoever computes them, and wherever they are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from index_jobs import DOCS, lines, read_folder, split_input, write_input
from ontodex.corpora.field_mapping import NO_MAPPING
from ontodex.errors import DataError, RunError
from ontodex.io.storage import fetch_file, join, list_files, read_texts, remove, store_file
from ontodex.runs.index.inputs import Input, find_inputs
from ontodex.runs.index.job import IndexResult, index_documents
from ontodex.runs.index.merge import merge_parts
from ontodex.runs.index.parts import make_parts
from ontodex.runs.index.resume import JobPlan, PartsFolder
from ontodex.runs.index.shard import (
    ShardTask,
    Slice,
    SliceResult,
    index_slice,
    make_slices,
)

PLAN = JobPlan("digest", None, None, None, block=5, device="cpu", columns={}, to="parquet")


@pytest.fixture
def shard(task, tmp_path):
    return ShardTask(task, PLAN, PartsFolder(str(tmp_path / "out")), NO_MAPPING)


@pytest.fixture
def source(tmp_path) -> Input:
    (found,) = find_inputs([str(write_input(tmp_path / "in.jsonl", DOCS))])
    return found


def index_here(shard: ShardTask, inputs: Sequence[Input]) -> Iterator[SliceResult]:
    """An engine without processes: the memory of fsspec is that of one process."""
    for slice in make_slices(inputs, workers=2):
        yield index_slice(shard, slice)


def test_inputs_are_cut_into_slices_only_where_there_are_fewer_than_workers(source):
    others = [source._replace(name=name) for name in "abc"]
    assert make_slices(others, 3) == [Slice(other, 0, 1) for other in others]
    assert make_slices([source], 2) == [Slice(source, 0, 2), Slice(source, 1, 2)]
    assert len(make_slices(others, 4)) == 6


def test_slices_in_any_order_and_repeated_write_the_part_of_a_whole(shard, source, tmp_path):
    index_slice(shard, Slice(source))
    whole = read_folder(tmp_path / "out" / "parts")
    remove(str(tmp_path / "out"))
    for first in (2, 0, 2):
        index_slice(shard, Slice(source, first, 3))
        assert not (tmp_path / "out" / "parts").exists()
    index_slice(shard, Slice(source, 1, 3))
    assert read_folder(tmp_path / "out" / "parts") == whole
    assert json.loads((tmp_path / "out" / "ledger" / "in.json").read_text())["documents"] == 24


def test_finished_blocks_are_not_computed_again_but_those_of_another_input_are(
    shard, source, tmp_path
):
    index_slice(shard, Slice(source, 0, 2))
    work = Path(shard.blocks_of(source))
    before = {path: path.stat().st_mtime_ns for path in work.iterdir()}
    assert [path.name for path in sorted(before)] == [f"{n:06}.arrow" for n in (0, 2, 4)]
    index_slice(shard, Slice(source, 0, 2))
    assert {path: path.stat().st_mtime_ns for path in work.iterdir()} == before
    changed = source._replace(version="another")
    index_slice(shard, Slice(changed, 1, 2))
    assert [path.name for path in sorted(Path(shard.blocks_of(changed)).iterdir())] == [
        f"{n:06}.arrow" for n in (1, 3)
    ]


def test_the_ledger_names_input_run_and_counts(run, tmp_path):
    source = write_input(tmp_path / "in.jsonl", DOCS)
    source.write_text(source.read_text() + "{broken\n")
    index_documents(run.folder, source, tmp_path / "out", workers=1)
    record = json.loads((tmp_path / "out" / "ledger" / "in.json").read_text())
    plan = json.loads((tmp_path / "out" / "job.json").read_text())
    assert (record["location"], record["size"]) == (str(source), source.stat().st_size)
    assert (record["documents"], record["rejected"], record["has_ids"]) == (24, 1, True)
    assert record["run"] == plan["run"]
    (reject,) = lines(tmp_path / "out" / "rejects" / "in.jsonl")
    assert (reject["input"], reject["line"]) == ("in.jsonl", 25)


def test_an_input_that_cannot_be_read_does_not_stop_the_others(run, tmp_path):
    folder = split_input(write_input(tmp_path / "in.jsonl", DOCS), tmp_path / "in", 4)
    whole = (folder / "01.jsonl.gz").read_bytes()
    for name in ("01", "02"):
        (folder / f"{name}.jsonl.gz").write_bytes(whole[: len(whole) - 12])
    with pytest.raises(DataError, match=r"2 inputs cannot be read, among them: .*cut off"):
        index_documents(run.folder, folder, tmp_path / "out", workers=1)
    (folder / "02.jsonl.gz").write_bytes(whole)
    with pytest.raises(DataError, match=r"01\.jsonl\.gz: the compressed data is .*cut off"):
        index_documents(run.folder, folder, tmp_path / "out", workers=1)
    (folder / "01.jsonl.gz").write_bytes(gzip.compress(b'{"id": "1", "text": "oaks"}\n'))
    assert index_documents(run.folder, folder, tmp_path / "out", workers=1) == IndexResult(19, 0)
    assert not (tmp_path / "out" / "work").exists()


def test_warnings_of_workers_reach_the_log_and_the_ledger(run, tmp_path, caplog):
    (tmp_path / "in.csv").write_bytes("id,text\n1,Forelle im Fluß\n".encode("cp1252"))
    index_documents(run.folder, tmp_path / "in.csv", tmp_path / "out", workers=1)
    assert caplog.text.count("windows-1252") == 1
    record = json.loads((tmp_path / "out" / "ledger" / "in.json").read_text())
    assert any("windows-1252" in warning for warning in record["warnings"])


def test_a_folder_of_something_else_and_other_settings_are_refused(run, tmp_path):
    source = write_input(tmp_path / "in.jsonl", DOCS)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    with pytest.raises(RunError, match="is there already, and not a folder of parts"):
        index_documents(run.folder, source, tmp_path / "mine")
    assert read_folder(tmp_path / "mine") == {"notes.txt": b"precious"}
    index_documents(run.folder, source, tmp_path / "out", workers=1)
    with pytest.raises(RunError, match=r"to parquet, not jsonl"):
        index_documents(run.folder, source, tmp_path / "out", to="jsonl")
    (tmp_path / "out" / "ledger" / "in.json").write_text("{half")
    with pytest.raises(RunError, match=r"ledger/in\.json: damaged"):
        index_documents(run.folder, source, tmp_path / "out")


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_a_data_set_behind_a_url_gives_the_same_parts(shard, scheme, tmp_path):
    pytest.importorskip("fsspec")
    base = f"file://{tmp_path}/remote" if scheme == "file" else "memory://remote"
    folder = split_input(write_input(tmp_path / "in.jsonl", DOCS), tmp_path / "in", 3)
    for file in folder.iterdir():
        with store_file(join(base, "in", file.name)) as path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read_bytes())
    make_parts(shard, find_inputs([str(folder)]), index_here)
    remote = ShardTask(shard.task, PLAN, PartsFolder(join(base, "out")), NO_MAPPING)
    inputs = find_inputs([join(base, "in")])
    records = make_parts(remote, inputs, index_here)
    assert [record.location for record in records] == [input.location for input in inputs]
    local = read_folder(tmp_path / "out" / "parts")
    files = list_files(join(base, "out", "parts"))
    assert [file.name for file in files] == list(local)
    for file in files:
        with fetch_file(file.location) as path:
            assert path.read_bytes() == local[file.name]
    merge_parts(remote.folder, "parquet", join(base, "merged", "current.jsonl"))
    assert len(read_texts(join(base, "merged"))["current.jsonl"].splitlines()) == 24
    assert make_parts(remote, inputs, pytest.fail) == records  # all of it is done
    remove(base)
