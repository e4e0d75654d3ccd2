"""The blocks of `ontodex index` as tasks on a Ray cluster.

The command sends the documents and writes the parts. A worker needs ontodex and the run folder
under the same path. A task whose worker dies is repeated by another one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any

from ontodex.errors import RunError, require
from ontodex.runs.index.block import Task, compute_block
from ontodex.runs.index.workers import AHEAD, ONE_THREAD, Block, submit_blocks
from ontodex.types import Corpus

# Ray reads these when it is imported.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}  # sends no usage statistics
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # the documented way to bind 127.0.0.1 only
RETRIES = 5  # of a block whose worker or machine died


def compute_on_cluster(
    task: Task, corpus: Corpus, blocks: Sequence[Block], *, address: str, workers: int | None
) -> Iterator[tuple[int, bytes]]:
    """Yield (number, part) of each block, in the order in which they are finished."""
    ray = import_ray(address)

    def first_done(references: list[Any]) -> list[tuple[Any, bytes]]:
        done, _ = ray.wait(references, num_returns=1)
        return [(reference, _result(ray, reference)) for reference in done]

    # Ray reports lost workers on standard output, where the answer of the command belongs.
    with redirect_stdout(sys.stderr):
        _connect(ray, address, workers)
        try:
            n_workers = workers or int(ray.cluster_resources().get("CPU", 1))
            remote = ray.remote(num_cpus=1, max_retries=RETRIES)(compute_block)
            yield from submit_blocks(
                blocks,
                lambda block: remote.remote(task, block.docs(corpus)),
                first_done,
                at_once=AHEAD * n_workers,
            )
        finally:
            ray.shutdown()


def import_ray(address: str) -> Any:
    """Import Ray, with the environment variables that it reads on import."""
    os.environ |= QUIET | (LOOPBACK if address == "local" else {})
    return require("ray", extra="ray", purpose="--ray")


def _connect(ray: Any, address: str, workers: int | None) -> None:
    """Start a cluster that only this machine can reach, or connect to an existing one."""
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
            hint="--ray local starts one on this machine; ray start --head starts one",
        ) from error


def _result(ray: Any, reference: Any) -> bytes:
    try:
        part: bytes = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise RunError(
            f"a block could not be computed in {RETRIES + 1} attempts ({error})",
            hint="start the same command again: it continues where it stopped",
        ) from error
    return part
