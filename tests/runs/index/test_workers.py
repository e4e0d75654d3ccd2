"""Worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ontodex.corpora.open import open_corpus
from ontodex.runs.index.resume import JobFiles


def start(run_folder: Path, source: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ontodex", "index", str(run_folder), str(source), str(out)]
    command += ["--block", "5", *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return output


def ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@pytest.mark.slow
def test_a_killed_worker_ends_the_command_with_a_message(sample, descendants, tmp_path):
    out = tmp_path / "out.csv"
    process = start(*sample, out, "--workers", "2")
    while not list(JobFiles(out).parts.glob("*.arrow")):
        assert not ended_within(process, 0.02)
    working = [pid for pid in descendants(process.pid) if b"spawn_main" in arguments_of(pid)]
    os.kill(working[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "a worker process was killed" in errors
    assert "Traceback" not in errors
    finish(start(*sample, out))
    assert len(out.read_text().splitlines()) == 1 + len(open_corpus(sample[1]))


def arguments_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""
