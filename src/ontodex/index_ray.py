"""The blocks of `ontodex index` as tasks on a Ray cluster.

The command sends the documents and writes the parts; a worker needs ontodex and the run folder,
under the same path. A task whose worker dies is given to another one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any

from ontodex.errors import RunError, require
from ontodex.index_block import Task, answer
from ontodex.index_workers import AHEAD, ONE_THREAD, Block, handed_out
from ontodex.types import Corpus

# Ray reads these when it is imported.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}  # reports nothing to its makers
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # its way to bind 127.0.0.1 and nothing else
RETRIES = 5  # of a block whose worker was killed or whose machine went away


def on_cluster(
    task: Task, corpus: Corpus, blocks: Sequence[Block], *, address: str, workers: int | None
) -> Iterator[tuple[int, bytes]]:
    """(number, part) of each block, as they are finished."""
    ray = imported(address)

    def first_done(references: list[Any]) -> list[tuple[Any, bytes]]:
        done, _ = ray.wait(references, num_returns=1)
        return [(reference, _result(ray, reference)) for reference in done]

    # Ray tells of workers it lost on standard output, where the command's answer belongs.
    with redirect_stdout(sys.stderr):
        _join(ray, address, workers)
        try:
            n_workers = workers or int(ray.cluster_resources().get("CPU", 1))
            remote = ray.remote(num_cpus=1, max_retries=RETRIES)(answer)
            yield from handed_out(
                blocks,
                lambda block: remote.remote(task, block.docs(corpus)),
                first_done,
                at_once=AHEAD * n_workers,
            )
        finally:
            ray.shutdown()


def imported(address: str) -> Any:
    """The library, told how to behave before it is loaded."""
    os.environ |= QUIET | (LOOPBACK if address == "local" else {})
    return require("ray", extra="ray", purpose="--ray")


def _join(ray: Any, address: str, workers: int | None) -> None:
    """Start a cluster that only this machine can reach, or join the one there is."""
    alone = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(
            address=address,
            runtime_env={"env_vars": ONE_THREAD},
            log_to_driver=False,
            logging_level=logging.ERROR,
            **alone,
        )
    except (ConnectionError, ValueError) as error:
        raise RunError(
            f"no Ray cluster at {address} ({error})",
            hint="--ray local starts one on this machine; ray start --head starts one to join",
        ) from error


def _result(ray: Any, reference: Any) -> bytes:
    try:
        part: bytes = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise RunError(
            f"a block could not be computed in {RETRIES + 1} attempts ({error})",
            hint="start the same command again: it goes on where it stopped",
        ) from error
    return part
