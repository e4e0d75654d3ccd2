"""Updates: later inputs replace and delete records; the table of current records."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from index_jobs import DOCS, lines, read_folder, write_input
from ontodex.corpora.field_mapping import NO_MAPPING
from ontodex.corpora.open import write_docs
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.runs.index import shard
from ontodex.runs.index.block import Task
from ontodex.runs.index.inputs import find_inputs
from ontodex.runs.index.job import IndexResult, index_documents
from ontodex.runs.index.merge import merge_parts
from ontodex.runs.index.resume import JobPlan, PartsFolder
from ontodex.types import Doc

DELETED = b"<PMID Version='1'>1</PMID><PMID>5</PMID><PMID>77</PMID>"
DELETIONS = b"<DeleteCitation>" + DELETED + b"</DeleteCitation>"


@pytest.fixture
def pubmed(tmp_path: Path) -> Path:
    """A baseline of ids 1 to 6, an update of 2 and 7 that deletes 1 and 5, an update with 5."""
    folder = tmp_path / "pubmed"
    folder.mkdir()
    for number, ids in enumerate(("123", "456", "27", "5"), start=1):
        docs = [Doc(id_, {"title": f"trout in stream {number}"}) for id_ in ids]
        path = folder / f"pubmed26n{number:04}.xml.gz"
        write_docs(docs, path, "medline")
        if number == 3:
            text = gzip.decompress(path.read_bytes())
            text = text.replace(b"</PubmedArticleSet>", DELETIONS + b"</PubmedArticleSet>")
            path.write_bytes(gzip.compress(text))
    return folder


CURRENT = ["3", "4", "6", "2", "7", "5"]  # in the order of their parts


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_the_table_has_the_current_records_of_all_parts(run, pubmed, tmp_path, to):
    table = tmp_path / "current.jsonl"
    result = index_documents(
        run.folder, pubmed, tmp_path / "out", to=to, merge=table, block=2, workers=1
    )
    assert result == IndexResult(9, 0, outdated=3)
    assert [row["id"] for row in lines(table)] == CURRENT
    parts = read_folder(tmp_path / "out" / "parts")
    assert list(parts) == [f"pubmed26n{number:04}.{to}" for number in (1, 2, 3, 4)]


def test_one_table_of_many_inputs_has_the_current_records(run, pubmed, tmp_path):
    out = tmp_path / "out.jsonl"
    assert index_documents(run.folder, [pubmed], out, workers=1) == IndexResult(6, 0, outdated=3)
    assert [row["id"] for row in lines(out)] == CURRENT
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.jsonl", "out.jsonl.job.json", "pubmed"
    ]  # fmt: skip


def test_the_order_of_arguments_and_commands_does_not_matter(run, pubmed, tmp_path):
    files = sorted(pubmed.iterdir(), reverse=True)
    index_documents(run.folder, files[:1], tmp_path / "out", workers=1)
    table = tmp_path / "current.jsonl"
    index_documents(run.folder, files[1:], tmp_path / "out", merge=table, workers=1)
    assert [row["id"] for row in lines(table)] == CURRENT


def test_an_input_that_changed_gets_a_new_part_and_the_others_keep_theirs(run, tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write_input(source / "a.jsonl", DOCS[:4])
    write_input(source / "b.jsonl", DOCS[4:])
    index_documents(run.folder, source, out, workers=1)
    before = (out / "parts" / "b.parquet").stat()
    write_input(source / "a.jsonl", DOCS[:3])
    assert index_documents(run.folder, source, out, workers=1) == IndexResult(23, 0)
    assert (out / "parts" / "b.parquet").stat() == before
    merge_parts(PartsFolder(str(out)), "parquet", str(tmp_path / "current.jsonl"))
    ids = [row["id"] for row in lines(tmp_path / "current.jsonl")]
    assert ids == [doc.id for doc in DOCS[:3] + DOCS[4:]]


def test_documents_without_ids_are_not_merged(run, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("text,labels\ntrout,fish\noaks,oak\n")
    inputs = [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert index_documents(run.folder, inputs, tmp_path / "out", workers=1) == IndexResult(4, 0)
    with pytest.raises(DataError, match=r"a\.csv: its documents have no ids"):
        merge_parts(PartsFolder(str(tmp_path / "out")), "parquet", str(tmp_path / "current.csv"))
    with pytest.raises(DataError, match=r"a\.csv: its documents have no ids"):
        index_documents(run.folder, inputs, tmp_path / "out.csv", workers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv", "out"]
    # Of one input the numbers are ids enough.
    index_documents(run.folder, inputs[0], tmp_path / "one.jsonl", workers=1)
    assert [row["id"] for row in lines(tmp_path / "one.jsonl")] == ["1", "2"]


def test_options_for_parts_are_refused_for_a_table(run, pubmed, tmp_path):
    for options in ({"to": "csv"}, {"merge": "m.csv"}):
        with pytest.raises(ConfigError, match="are for a folder of parts"):
            index_documents(run.folder, pubmed, tmp_path / "out.csv", **options)
    with pytest.raises(ConfigError, match="which table"):
        index_documents(run.folder, pubmed, tmp_path / "out", merge="current.txt")


def index_two(run, folder: Path, out: Path, **more: object) -> IndexResult:
    table = out.with_suffix(".jsonl")
    return index_documents(run.folder, folder, out, merge=table, workers=1, block=2, **more)


def index_until(
    task: Task, source: Path, out: Path, place: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Do what a worker does for an input, up to a call at which it is killed."""

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    plan = JobPlan(**json.loads((out / "job.json").read_text()))
    (found,) = find_inputs([str(source)])
    settings = shard.ShardTask(task, plan, PartsFolder(str(out)), NO_MAPPING)
    with monkeypatch.context() as patch:
        patch.setattr(place, name, kill)
        with pytest.raises(KeyboardInterrupt):
            shard.index_slice(settings, shard.Slice(found))


def test_a_part_that_a_killed_job_replaced_is_not_merged_as_the_old_one(
    run, task, tmp_path, monkeypatch
):
    """The kill comes after the new part, before its record; then the input is left out."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    write_input(folder / "a.jsonl", DOCS[:4])
    write_input(folder / "b.jsonl", DOCS[4:6])
    assert index_two(run, folder, out).documents == 6
    write_input(folder / "a.jsonl", DOCS[:2])

    index_until(task, folder / "a.jsonl", out, PartsFolder, "write_record", monkeypatch)
    late = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(RunError, match=r"a\.parquet: a killed job did not finish this part"):
        index_two(run, folder, out, since=late)
    assert index_two(run, folder, out).documents == 4
    assert [row["id"] for row in lines(tmp_path / "out.jsonl")] == [
        doc.id for doc in (*DOCS[:2], *DOCS[4:6])
    ]
    assert index_two(run, folder, out, since=late).documents == 0
    assert len(lines(tmp_path / "out.jsonl")) == 4


def test_a_kill_before_the_new_part_leaves_the_input_to_be_indexed(
    run, task, tmp_path, monkeypatch
):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    write_input(folder / "a.jsonl", DOCS[:4])
    index_two(run, folder, out)
    write_input(folder / "a.jsonl", DOCS[:2])

    index_until(task, folder / "a.jsonl", out, shard, "_write_part", monkeypatch)
    late = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(RunError, match="did not finish"):
        index_two(run, folder, out, since=late)
    assert index_two(run, folder, out).documents == 2


def test_rejects_of_an_input_that_was_corrected_are_removed(run, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    path = write_input(folder / "a.jsonl", DOCS[:2])
    path.write_text(path.read_text() + "no JSON\n")
    assert index_two(run, folder, out).rejected == 1
    assert len(lines(out / "rejects" / "a.jsonl")) == 1
    write_input(path, DOCS[:3])
    assert index_two(run, folder, out).rejected == 0
    assert not (out / "rejects" / "a.jsonl").exists()
