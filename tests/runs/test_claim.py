"""Claims of run folders: other settings, other data, other processes."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from floor_run import DOCS, ONTOLOGY, TABLES
from ontodex.corpora.formats import jsonl
from ontodex.corpora.open import open_corpus
from ontodex.errors import DataError, RunError
from ontodex.models import MODELS
from ontodex.models.baselines.popularity import PopularitySystem
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.claim import claim_folder
from ontodex.runs.folder import verify_folder, write_manifest
from ontodex.runs.recipe import train
from ontodex.runs.settings import resolve
from ontodex.types import Corpus, LabelSpace


def test_a_finished_run_is_never_overwritten(folder):
    with pytest.raises(RunError, match="holds a finished run"):
        train(config=TABLES, out=folder, train=DOCS)


def test_an_unfinished_run_with_other_settings_is_refused(copy):
    (copy / "manifest.json").unlink()
    other = {**TABLES, "labels": {"min_count": 2}}
    with pytest.raises(RunError, match="other settings"):
        train(config=other, out=copy, train=DOCS)


class Long(PopularitySystem):
    """Is interrupted after its first checkpoint; started again, it continues."""

    work: Path | None = None

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        assert self.work is not None
        if not (self.work / "piece").exists():
            (self.work / "piece").write_text("hours of work")
            raise KeyboardInterrupt
        super().fit(train, dev, labels)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a training of TABLES on DOCS, the first three as dev, and ONTOLOGY."""
    monkeypatch.setitem(MODELS, "popularity", f"{__name__}:Long")
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(config=TABLES, out=out, train=DOCS, dev=DOCS.select(range(3)), ontology=ONTOLOGY)
    return out


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"train": DOCS.select(range(20))}, "with other training documents"),
        ({"dev": DOCS.select(range(4))}, "with other dev documents"),
        ({"dev": None}, "with other training documents and other dev documents"),
        ({"ontology": build_ontology([Concept("fish"), Concept("oak")])}, "with another ontology"),
        ({"ontology": None}, "with another ontology"),
    ],
)
def test_an_unfinished_run_with_other_data_is_refused_and_kept(interrupted, other, named):
    given = {"train": DOCS, "dev": DOCS.select(range(3)), "ontology": ONTOLOGY}
    kept = {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=f"an unfinished run {named}$") as refused:
        train(config=TABLES, out=interrupted, **{**given, **other})
    assert refused.value.hint == "choose another --out, or remove that folder first"
    assert {p: p.read_bytes() for p in interrupted.rglob("*") if p.is_file()} == kept
    train(config=TABLES, out=interrupted, **given)  # the same training still goes on
    assert not (interrupted / "work").exists()


def test_a_folder_that_is_not_a_run_is_not_changed(tmp_path):
    for name in ("diary.txt", ".lock"):
        (tmp_path / name).write_text("private")
    with pytest.raises(RunError, match="not empty and not a run"):
        train(config=TABLES, out=tmp_path, train=DOCS)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {
        "diary.txt": "private", ".lock": "private"
    }  # fmt: skip


WAITING = """
import sys
from ontodex.models import MODELS
from ontodex.models.baselines.popularity import PopularitySystem
from ontodex.runs.recipe import train
class Waiting(PopularitySystem):
    def fit(self, train, dev, labels):
        print("at work", flush=True)
        sys.stdin.read()
        super().fit(train, dev, labels)
MODELS["popularity"] = "__main__:Waiting"
train("popularity", out=sys.argv[1], train=sys.argv[2])
"""


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that trains TABLES on docs.jsonl in the folder run, until its input ends."""
    jsonl.write(DOCS, tmp_path / "docs.jsonl")
    command = [sys.executable, "-c", WAITING, str(tmp_path / "run"), str(tmp_path / "docs.jsonl")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        yield process
        process.kill()


def test_a_folder_in_which_another_process_trains_is_refused(at_work, tmp_path):
    run, docs = tmp_path / "run", tmp_path / "docs.jsonl"
    before = sorted(run.rglob("*"))
    with pytest.raises(RunError, match="run: another process is working on it"):
        train("popularity", train=docs, out=run)
    assert sorted(run.rglob("*")) == before
    at_work.communicate(timeout=600)
    assert at_work.returncode == 0
    assert set(verify_folder(run)["files"]) == {"config.toml", "decision.json", "labels.tsv"}
    assert not list(run.glob(".*")), "no lock is left behind"


@pytest.mark.slow
def test_a_killed_training_leaves_no_lock(at_work, tmp_path):
    at_work.kill()
    at_work.wait()
    train(config=TABLES, out=tmp_path / "run", train=open_corpus(tmp_path / "docs.jsonl"))
    assert not list((tmp_path / "run").glob(".*"))


def test_training_without_file_locks_logs_a_warning(tmp_path, monkeypatch, caplog):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    train(config=TABLES, out=tmp_path / "run", train=DOCS)
    assert "has no locks" in caplog.text


def test_an_error_after_the_manifest_removes_no_file(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(DataError), claim_folder(out, resolve(TABLES)):
        write_manifest(out, {})
        raise DataError("found too late")
    assert verify_folder(out)["files"].keys() == {"config.toml"}
