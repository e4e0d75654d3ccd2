"""Resuming a killed job, and refusing another one."""

from __future__ import annotations

import fcntl
import json
import random

import pytest

from index_jobs import DOCS, finish, has_ended, ids_in, is_alive, start, write_input
from ontodex.corpora.open import open_corpus
from ontodex.errors import RunError
from ontodex.runs.index.job import IndexResult, TableFiles, index_documents
from ontodex.runs.recipe import train
from ontodex.types import Corpus


def test_the_same_command_again_does_nothing(run, finished):
    source, out = finished
    before = out.stat()
    assert index_documents(run.folder, source, out, limit=2) == IndexResult(24, 0)
    assert out.stat() == before


def test_a_kill_between_the_table_and_the_final_record_changes_nothing(run, finished):
    source, out = finished
    before, job = out.read_bytes(), TableFiles(out).job
    unfinished = json.loads(job.read_text()) | {"result": None}
    job.write_text(json.dumps(unfinished))
    assert index_documents(run.folder, source, out, limit=2) == IndexResult(24, 0)
    assert out.read_bytes() == before
    assert json.loads(job.read_text())["result"] == {
        "documents": 24, "rejected": 0, "outdated": 0
    }  # fmt: skip


def test_leftovers_of_killed_writes_are_removed(run, tmp_path):
    source, out = write_input(tmp_path / "in.jsonl", DOCS), tmp_path / "out [1].csv"
    written = [out, TableFiles(out).job, TableFiles(out).rejects]
    for path in written:
        path.with_name(f".{path.name}.71.0a1b2c3d.part").write_text("half")
    others = [".out [1].csv.bak.71.0a1b2c3d.part", ".out 1.csv.71.0a1b2c3d.part", ".mine.part"]
    for name in others:
        (tmp_path / name).write_text("somebody's")
    index_documents(run.folder, source, out)
    left = {path.name for path in tmp_path.iterdir() if path.name.endswith(".part")}
    assert left == set(others)


def test_another_job_with_the_same_table_is_refused_with_the_differences(run, finished, tmp_path):
    source, out = finished
    before, names = out.read_bytes(), sorted(out.parent.iterdir())
    other = write_input(tmp_path / "other.jsonl", DOCS[:3])
    with pytest.raises(RunError, match="a job with limit 2, not 3"):
        index_documents(run.folder, source, out, limit=3)
    with pytest.raises(RunError, match=r"with another input and threshold None, not 0\.5"):
        index_documents(run.folder, other, out, limit=2, threshold=0.5)
    second = train(
        config={"model": {"name": "popularity"}}, out=tmp_path / "run", train=Corpus.of(DOCS)
    )
    with pytest.raises(RunError, match="with another run"):
        index_documents(second.folder, source, out, limit=2)
    assert out.read_bytes() == before
    assert sorted(out.parent.iterdir()) == names


def test_a_file_that_no_job_wrote_is_not_overwritten(run, finished, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("precious")
    with pytest.raises(RunError, match="is there already"):
        index_documents(run.folder, finished[0], out)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert out.read_text() == "precious"


def test_parts_without_a_record_of_their_job_are_not_used(run, finished, tmp_path):
    out = tmp_path / "out.csv"
    parts = TableFiles(out).parts / "parts"
    parts.mkdir(parents=True)
    (parts / "in.parquet").write_bytes(b"of something else")
    with pytest.raises(RunError, match="is there already, and not a folder of parts"):
        index_documents(run.folder, finished[0], out, limit=2)
    assert not out.exists()


def test_two_processes_do_not_work_on_the_same_table(run, finished, tmp_path):
    out = tmp_path / "out.csv"
    TableFiles(out).parts.mkdir()
    with (TableFiles(out).parts / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process"):
            index_documents(run.folder, finished[0], out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_job_killed_at_random_moments_continues_and_writes_the_same_bytes(
    sample, descendants, tmp_path, name
):
    whole, killed = tmp_path / "whole" / name, tmp_path / "killed" / name
    finish(start(*sample, whole, "--workers", "2"))
    n_blocks = -(-len(open_corpus(sample[1])) // 5)
    moments = random.Random(17)
    parts, left, n_killed = TableFiles(killed).parts, set(), 0
    while n_killed < 6 and not killed.exists():
        process = start(*sample, killed, "--workers", "2")
        if n_killed % 2:  # somewhere in the blocks; otherwise mostly before them
            wanted = len(list(parts.rglob("*.arrow"))) + moments.randint(1, n_blocks // 8)
            while len(list(parts.rglob("*.arrow"))) < wanted and not has_ended(process, 0.002):
                pass
        else:
            has_ended(process, moments.random())
        left |= set(descendants(process.pid))
        n_killed += process.poll() is None
        process.kill()
        process.communicate()
    assert n_killed >= 3, "it was not killed often enough to prove anything"
    finish(start(*sample, killed, "--workers", "1"))
    assert killed.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in killed.parent.iterdir()) == [name, f"{name}.job.json"]
    assert not [pid for pid in left if is_alive(pid)], "workers stayed behind"
    if name == "out.csv":
        assert ids_in(killed) == open_corpus(sample[1]).ids
