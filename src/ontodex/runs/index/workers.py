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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from ontodex.errors import RunError
from ontodex.runs.index.block import Task, compute_block
from ontodex.types import Corpus, Doc

# Read by BLAS, OpenMP and torch when a process starts.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
AHEAD = 2  # blocks submitted for each worker: one being computed, one waiting

H = TypeVar("H")


class Block(NamedTuple):
    """Consecutive documents that are computed together."""

    number: int
    start: int
    end: int

    def docs(self, corpus: Corpus) -> list[Doc]:
        return list(corpus.select(np.arange(self.start, self.end)))


def compute_in_processes(
    task: Task, corpus: Corpus, blocks: Sequence[Block], *, workers: int
) -> Iterator[tuple[int, bytes]]:
    """Yield (number, part) of each block, in the order in which they are finished."""
    assert corpus.folder is not None
    folder, workers = corpus.folder, min(workers, len(blocks))
    spawn = multiprocessing.get_context("spawn")  # a fork would copy locks of threads
    with (
        _environment(ONE_THREAD),
        ProcessPoolExecutor(workers, mp_context=spawn, initializer=_start_worker) as pool,
    ):
        try:
            yield from submit_blocks(
                blocks,
                lambda block: pool.submit(_compute_in_worker, task, folder, block),
                _first_done,
                at_once=AHEAD * workers,
            )
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process was killed, perhaps because memory ran out",
                hint="start the same command again: it continues where it stopped; "
                "fewer --workers need less memory",
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def submit_blocks(
    blocks: Iterable[Block],
    submit: Callable[[Block], H],
    first_done: Callable[[list[H]], list[tuple[H, bytes]]],
    *,
    at_once: int,
) -> Iterator[tuple[int, bytes]]:
    """Yield (number, part) of each block; at most `at_once` are submitted at a time, which bounds
    memory."""
    running: dict[H, int] = {}
    for block in blocks:
        running[submit(block)] = block.number
        if len(running) >= at_once:
            yield from ((running.pop(handle), part) for handle, part in first_done(list(running)))
    while running:
        yield from ((running.pop(handle), part) for handle, part in first_done(list(running)))


def _first_done(futures: list[Future[bytes]]) -> list[tuple[Future[bytes], bytes]]:
    done, _ = wait(futures, return_when=FIRST_COMPLETED)
    return [(future, future.result()) for future in done]


def _start_worker() -> None:
    """Prepare a worker process: leave Ctrl-C to the command, and end when the command ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _compute_in_worker(task: Task, folder: Path, block: Block) -> bytes:
    return compute_block(task, block.docs(_open(folder)))


@lru_cache(maxsize=1)
def _open(folder: Path) -> Corpus:
    return Corpus.open(folder)


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
