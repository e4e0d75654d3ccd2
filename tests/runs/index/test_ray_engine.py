"""A Ray cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from index_jobs import (
    arguments_of,
    finish,
    has_ended,
    is_alive,
    read_folder,
    split_input,
    start,
)
from ontodex.errors import ConfigError, MissingExtraError
from ontodex.runs.index import ray_engine
from ontodex.runs.index.job import TableFiles, index_documents


def test_without_ray_the_command_says_how_to_get_it(run, finished, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="ray"):
        index_documents(run.folder, finished[0], tmp_path / "out.csv", engine="ray")


@pytest.mark.parametrize("niceness", ["0", "7"])
def test_workers_are_as_nice_as_the_command_unless_the_environment_says_otherwise(
    monkeypatch, niceness
):
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    for name in (ray_engine.NICENESS, *ray_engine.QUIET, *ray_engine.LOOPBACK):
        monkeypatch.setenv(name, niceness)  # restored at the end
    if niceness == "0":
        monkeypatch.delenv(ray_engine.NICENESS)
    ray_engine.import_ray()
    assert os.environ[ray_engine.NICENESS] == niceness


def find_addresses(pids: set[int]) -> set[str]:
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


def find_workers(pids: set[int]) -> list[int]:
    """The workers of a cluster that index something now."""
    return [pid for pid in pids if arguments_of(pid).startswith(b"ray::index")]


def count_blocks(parts: Path) -> int:
    return len(list(parts.rglob("*.arrow")))


@pytest.mark.slow
def test_a_ray_cluster_that_loses_a_worker_writes_the_same_bytes_and_stays_on_loopback(
    sample, descendants, monkeypatch, tmp_path
):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'ontodex[ray]'")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    plain, out = tmp_path / "plain.jsonl", tmp_path / "ray.jsonl"
    finish(start(*sample, plain))
    process = start(*sample, out, "--engine", "ray", "--workers", "2")
    working: list[int] = []
    while count_blocks(TableFiles(out).parts) < 5 or len(working) < 2:
        assert not has_ended(process, 0.02), process.communicate()[1]
        cluster = set(descendants(process.pid))
        working = find_workers(cluster)
    addresses = find_addresses(cluster)
    os.kill(working[0], signal.SIGKILL)
    assert finish(process).startswith("1,587 documents")
    assert out.read_bytes() == plain.read_bytes()
    assert addresses
    assert addresses <= LOOPBACK
    assert not [pid for pid in cluster if is_alive(pid)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of four nodes on this machine, none with a GPU; the first has no place."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'ontodex[ray]'")
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        yield started
    finally:
        started.shutdown()


@pytest.mark.slow
def test_a_cluster_that_loses_a_machine_writes_the_same_parts(
    sample, cluster, monkeypatch, tmp_path
):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    inputs = split_input(sample[1], tmp_path / "in", 9)
    plain, out = tmp_path / "plain", tmp_path / "ray"
    finish(start(sample[0], inputs, plain))
    process = start(sample[0], inputs, out, "--engine", "ray")
    while count_blocks(out) < 10:
        assert not has_ended(process, 0.02), process.communicate()[1]
    cluster.remove_node(nodes[0], allow_graceful=False)
    assert finish(process).startswith("1,587 documents")
    assert read_folder(out / "parts") == read_folder(plain / "parts")
    assert read_folder(out / "ledger") == read_folder(plain / "ledger")
    assert sorted(path.name for path in out.iterdir()) == ["job.json", "ledger", "parts"]


@pytest.mark.slow
def test_a_cluster_without_gpus_is_not_waited_for(sample, cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with pytest.raises(ConfigError, match="the cluster has 0 GPUs"):
        index_documents(*sample, tmp_path / "out", engine="ray", gpus_per_worker=1)
