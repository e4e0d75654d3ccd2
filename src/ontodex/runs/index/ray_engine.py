"""The slices of `ontodex index` on a Ray cluster: actors that load the run once.

An actor gets the name of an input, reads it itself and writes its part. So a worker needs ontodex,
the run folder under the same path, and access to input and output. No document passes through the
command. Each actor has one slice at a time; the slice of an actor that died goes to another one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any

from ontodex.errors import ConfigError, RunError, require
from ontodex.runs.index.inputs import Input
from ontodex.runs.index.shard import ShardTask, Slice, SliceResult, index_slice, make_slices
from ontodex.runs.index.workers import ONE_THREAD

ADDRESS = "RAY_ADDRESS"  # Ray's own variable; without it, a cluster on this machine is started
# Ray reads these when it is imported.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}  # sends no usage statistics
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # the documented way to bind 127.0.0.1 only
# By default 15: other programs of a machine would hold up the workers.
NICENESS = "RAY_worker_niceness"
ATTEMPTS = 6  # at a slice whose worker or machine died


class IndexWorker:
    """An actor: a process of the cluster that loads the run once and indexes slices."""

    def __init__(self, shard: ShardTask) -> None:
        self._shard = shard

    def start(self) -> None:
        """Load the run."""
        self._shard.task.load_run()

    def index(self, slice: Slice) -> SliceResult:
        return index_slice(self._shard, slice)


def index_on_cluster(
    shard: ShardTask, inputs: Sequence[Input], *, workers: int | None, gpus: float
) -> Iterator[SliceResult]:
    """Index all inputs and yield the results, in the order in which they are finished."""
    ray = import_ray()
    # Ray reports lost workers on standard output, where the answer of the command belongs.
    with redirect_stdout(sys.stderr):
        _connect(ray, workers)
        try:
            count = _count_workers(ray, workers, gpus)
            slices = make_slices(inputs, count)
            yield from _Actors(ray, shard, gpus).index(slices, min(count, len(slices)))
        finally:
            ray.shutdown()


class _Actors:
    """Keeps a number of actors busy, and replaces those that die."""

    def __init__(self, ray: Any, shard: ShardTask, gpus: float) -> None:
        self._ray, self._shard = ray, ray.put(shard)
        self._remote = ray.remote(num_cpus=1, num_gpus=gpus)(IndexWorker)
        self._running: dict[Any, tuple[Any, Slice | None]] = {}  # by call: actor, slice

    def index(self, slices: Sequence[Slice], count: int) -> Iterator[SliceResult]:
        """Yield the result of each slice."""
        waiting, n_lost = list(reversed(slices)), Counter[Slice | None]()
        for _ in range(count):
            self._start()
        while len(waiting) or any(slice for _, slice in self._running.values()):
            (call,), _ = self._ray.wait(list(self._running), num_returns=1)
            actor, slice = self._running.pop(call)
            try:
                result = self._ray.get(call)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except self._ray.exceptions.RayError as error:
                n_lost[slice] += 1
                if n_lost[slice] == ATTEMPTS:
                    raise _lost_error(slice, error) from error
                if slice is not None:
                    waiting.append(slice)
                self._start()
                continue
            if slice is not None:
                yield result
            if waiting:
                slice = waiting.pop()
                # The name is that of the call in Ray's dashboard.
                name = f"index {slice.input.name}"
                self._running[actor.index.options(name=name).remote(slice)] = (actor, slice)

    def _start(self) -> None:
        """Start an actor; while it starts, or waits for a free place, the others work."""
        actor = self._remote.remote(self._shard)
        self._running[actor.start.remote()] = (actor, None)


def _lost_error(slice: Slice | None, error: Exception) -> RunError:
    what = "a worker could not start" if slice is None else f"{slice.input.location}: not indexed"
    return RunError(
        f"{what}, because a worker or its machine was lost {ATTEMPTS} times ({error})",
        hint="start the same command again: it continues where it stopped",
    )


def import_ray() -> Any:
    """Import Ray, with the environment variables that it reads on import."""
    os.environ.setdefault(NICENESS, "0")
    os.environ |= QUIET | ({} if ADDRESS in os.environ else LOOPBACK)
    return require("ray", extra="ray", purpose="--engine ray")


def _connect(ray: Any, workers: int | None) -> None:
    """Connect to an existing cluster, or start one that only this machine can reach."""
    address = os.environ.get(ADDRESS, "local")
    local = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(
            address=address,
            runtime_env={"env_vars": ONE_THREAD},
            log_to_driver=False,
            logging_level=logging.ERROR,
            **local,
        )
    except (ConnectionError, ValueError) as error:
        raise RunError(
            f"no Ray cluster at {address} ({error})",
            hint=f"unset {ADDRESS} to start one on this machine; ray start --head starts one",
        ) from error


def _count_workers(ray: Any, workers: int | None, gpus: float) -> int:
    """Return the number of actors: as many as asked for, else as the cluster has room for."""
    has = ray.cluster_resources()
    if gpus > has.get("GPU", 0):
        raise ConfigError(
            f"--gpus-per-worker {gpus:g}: the cluster has {has.get('GPU', 0):g} GPUs",
            hint="leave it out to compute on CPUs",
        )
    room = int(has["GPU"] / gpus) if gpus else int(has.get("CPU", 1))
    return workers or max(1, room)
