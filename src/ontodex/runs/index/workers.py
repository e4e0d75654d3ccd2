"""Worker processes of `ontodex index` on one machine.

Each computes with one thread, so that the bytes are the same for any number of workers. A worker
ends when the command that started it ends, even by kill -9.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from ontodex.errors import RunError
from ontodex.runs.index.inputs import Input
from ontodex.runs.index.shard import ShardTask, SliceResult, index_slice, make_slices

# Read by BLAS, OpenMP and torch when a process starts.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def index_in_processes(
    shard: ShardTask, inputs: Sequence[Input], *, workers: int
) -> Iterator[SliceResult]:
    """Index all inputs and yield the results, in the order in which they are finished."""
    slices = make_slices(inputs, workers)
    with (
        _environment(ONE_THREAD),
        _start_pool(min(workers, len(slices))) as pool,
    ):
        try:
            # They are names of inputs, so all can wait in memory.
            futures = [pool.submit(index_slice, shard, slice) for slice in slices]
            yield from (future.result() for future in as_completed(futures))
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process was killed, perhaps because memory ran out",
                hint="start the same command again: it continues where it stopped; "
                "fewer --workers need less memory",
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _start_pool(workers: int) -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")  # a fork would copy locks of threads
    return ProcessPoolExecutor(workers, mp_context=spawn, initializer=_start_worker)


def _start_worker() -> None:
    """Prepare a worker process: leave Ctrl-C to the command, and end when the command ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for processes that are started inside the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
