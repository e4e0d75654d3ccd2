"""Worker processes."""

from __future__ import annotations

import os
import signal

import pytest

from index_jobs import arguments_of, finish, has_ended, start
from ontodex.corpora.open import open_corpus
from ontodex.runs.index.job import TableFiles


@pytest.mark.slow
def test_a_killed_worker_ends_the_command_with_a_message(sample, descendants, tmp_path):
    out = tmp_path / "out.csv"
    process = start(*sample, out, "--workers", "2")
    while not list(TableFiles(out).parts.rglob("*.arrow")):
        assert not has_ended(process, 0.02)
    working = [pid for pid in descendants(process.pid) if b"spawn_main" in arguments_of(pid)]
    os.kill(working[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "a worker process was killed" in errors
    assert "Traceback" not in errors
    finish(start(*sample, out))
    assert len(out.read_text().splitlines()) == 1 + len(open_corpus(sample[1]))
