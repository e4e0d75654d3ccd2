"""A Ray cluster."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from index_jobs import arguments_of, ended_within, finish, is_alive, start
from ontodex.errors import MissingExtraError
from ontodex.runs.index.job import index_documents
from ontodex.runs.index.resume import JobFiles


def test_without_ray_the_command_says_how_to_get_it(run, finished, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="ray"):
        index_documents(run.folder, finished[0], tmp_path / "out.csv", ray="local")


def listening(pids: set[int]) -> set[str]:
    """Addresses (hexadecimal, as /proc/net has them) on which these processes accept TCP."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):  # ended meanwhile
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):  # closed meanwhile
                    inodes.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == "0A" and f"socket:[{cells[9]}]" in inodes:
                found.add(cells[1].partition(":")[0])
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.slow
def test_a_ray_cluster_that_loses_a_worker_writes_the_same_bytes_and_stays_on_loopback(
    sample, descendants, tmp_path
):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'ontodex[ray]'")
    plain, out = tmp_path / "plain.jsonl", tmp_path / "ray.jsonl"
    finish(start(*sample, plain))
    process = start(*sample, out, "--ray", "local", "--workers", "2")
    working: list[int] = []
    while len(list(JobFiles(out).parts.glob("*.arrow"))) < 5 or len(working) < 2:
        assert not ended_within(process, 0.02), process.communicate()[1]
        cluster = set(descendants(process.pid))
        working = [pid for pid in cluster if arguments_of(pid).startswith(b"ray::compute_block")]
    addresses = listening(cluster)
    os.kill(working[0], signal.SIGKILL)
    assert finish(process).startswith("1,587 documents")
    assert out.read_bytes() == plain.read_bytes()
    assert addresses
    assert addresses <= LOOPBACK
    assert not [pid for pid in cluster if is_alive(pid)]
