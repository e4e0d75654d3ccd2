"""A disk that fills up during training: one sentence, nothing lost, the same command goes on."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ontodex.corpora.datasets import get
from ontodex.runs.folder import is_finished

SMALL = {
    "hidden": 16,
    "width": 16,
    "value_dim": 16,
    "bag": 256,
    "train.epochs": 2,
    "train.batch_size": 64,
}
SMALL["train.checkpoint_seconds"] = 0
ROOM = 3_000_000  # bytes: more than any other file of a training than its checkpoints


def train(data: Path, out: Path, *, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """`ontodex train` in a process that may write no file larger than `limit`."""

    def shrink() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-m", "ontodex", "train", "--model", "attentive"]
    command += ["--train", str(data / "train.jsonl"), "--dev", str(data / "dev.jsonl")]
    command += [
        "--out",
        str(out),
        *(p for key, v in SMALL.items() for p in ("--set", f"model.{key}={v}")),
    ]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=shrink, check=False)


@pytest.mark.slow
def test_a_full_disk_ends_training_with_a_sentence_and_the_next_start_goes_on(tmp_path):
    get("sample", tmp_path / "data")
    run = tmp_path / "run"
    ended = train(tmp_path / "data", run, limit=ROOM)
    assert ended.returncode == 2
    assert "cannot be written" in ended.stderr
    assert "free some disk space" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not is_finished(run)
    left = [path.name for path in run.rglob("*") if path.is_file()]
    whole = ["clock.json", "config.toml", "data.json", "labels.tsv"]
    assert sorted(left) == whole, "a half-written file stayed behind"
    again = train(tmp_path / "data", run)
    assert again.returncode == 0, again.stderr
    assert is_finished(run)
