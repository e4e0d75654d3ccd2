"""Two processes as torchrun would start them, without torchrun: nobody ends one for the other."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ontodex.io.files import hold_lock
from ontodex.io.tensors import read_tensors
from ontodex.runs.run import load
from ontodex.training.distributed import choose_backend, is_rank_zero, on_rank_zero

CORPUS = """\
{"id": "1", "text": "brown trout", "labels": ["fish"]}
{"id": "2", "text": "red trout", "labels": ["fish"]}
{"id": "3", "text": "old oak", "labels": ["tree"]}
"""


def run_two(*command: str) -> list[tuple[int, str]]:
    """Exit code and messages of the first process and of the second."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    both = [
        subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"WORLD_SIZE": "2", "RANK": rank, "OMP_NUM_THREADS": "1"}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
        )
        for rank in "01"
    ]
    try:
        messages = [process.communicate(timeout=600)[1] for process in both]
    finally:
        for process in both:
            process.kill()
    return [(process.returncode, text) for process, text in zip(both, messages, strict=True)]


@pytest.fixture
def train(tmp_path: Path) -> list[str]:
    corpus = tmp_path / "train.jsonl"
    corpus.write_text(CORPUS)
    command = ["-m", "ontodex", "train", "--train", str(corpus), "--dev", str(corpus)]
    return [*command, "--out", str(tmp_path / "run"), "--device", "cpu"]


SMALL = ["--set=model.min_count=1", "--set=model.width=4", "--set=model.train.epochs=1"]


@pytest.mark.slow
@pytest.mark.parametrize("model", [["popularity"], ["xmlcnn", *SMALL]], ids=lambda model: model[0])
def test_two_processes_leave_one_run(train, model, tmp_path):
    ended = run_two(*train, "--model", *model)
    assert [code for code, _ in ended] == [0, 0], ended
    assert not any("Traceback" in errors or "warning" in errors.lower() for _, errors in ended)
    run = load(tmp_path / "run")
    assert run.about["labels"] == 2
    assert not list((tmp_path / "run").rglob(".*")), "no lock and no half a file"


@pytest.mark.slow
def test_a_folder_that_is_being_trained_in_ends_both(train, tmp_path):
    (tmp_path / "run").mkdir()
    with hold_lock(tmp_path / "run" / ".lock", tmp_path / "run"):
        (one, why), (other, that) = run_two(*train, "--model", "popularity")
    assert (one, other) == (2, 2)
    assert "another process is working on it" in why
    assert "the first process could not claim" in that


@pytest.mark.slow
def test_a_folder_that_rank_zero_cannot_claim_ends_both(train, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    (one, why), (other, that) = run_two(*train, "--model", "popularity")
    assert (one, other) == (2, 2)
    assert "is not empty and not a run folder" in why
    assert "the first process could not claim" in that
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


WORK = """
from ontodex.training.distributed import on_rank_zero, world
def work():
    with open({path!r}, "a") as file:
        file.write(f"{{world()}}\\n")
    {end}
print(on_rank_zero(work, "work"))
"""


@pytest.mark.slow
def test_rank_zero_works_once_for_all(tmp_path):
    done = tmp_path / "done"
    assert run_two("-c", WORK.format(path=str(done), end="return 1")) == [(0, ""), (0, "")]
    assert done.read_text() == "(0, 2)\n"


STAGE = """
import pathlib
import numpy as np
from ontodex.models.levelwise.stage_cache import StageCache
from ontodex.training.distributed import is_rank_zero
folder = pathlib.Path({folder!r})
def make(running):
    running.mkdir(exist_ok=True)
    if is_rank_zero():
        (running / "log.jsonl").write_text('{{"epoch": 0}}\\n')
    while not is_rank_zero() and not (running / "log.jsonl").exists():
        pass
    return {{"is_first": np.array([is_rank_zero()])}}
StageCache(folder, {{}}, {{}}, 1).get_or_train("a stage", make)
"""


@pytest.mark.slow
def test_a_stage_of_a_training_is_saved_and_logged_by_rank_zero(tmp_path):
    assert run_two("-c", STAGE.format(folder=str(tmp_path))) == [(0, ""), (0, "")]
    assert (tmp_path / "log.jsonl").read_text() == '{"piece": "a stage", "epoch": 0}\n'
    (stage,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert read_tensors(stage, "arrays")["is_first"].tolist() == [True]


@pytest.mark.slow
def test_no_process_waits_for_a_rank_zero_that_failed_or_died(tmp_path):
    for end in ("raise KeyError('of its own')", "import os; os._exit(9)"):
        (one, _), (other, text) = run_two("-c", WORK.format(path=str(tmp_path / "done"), end=end))
        assert one in (1, 9)
        assert other == 1
        assert "first process could not work" in text or "Connection" in text


def test_a_single_process_is_rank_zero():
    assert is_rank_zero()
    assert on_rank_zero(lambda: 3, "count") == 3


def test_processes_that_share_a_gpu_use_gloo(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")  # on two machines
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert choose_backend(n_gpus=4) == "cpu:gloo,cuda:nccl"
    assert choose_backend(n_gpus=2) == "gloo"
    monkeypatch.delenv("LOCAL_WORLD_SIZE")  # all on one machine
    assert choose_backend(n_gpus=4) == "gloo"
