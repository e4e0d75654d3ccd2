"""Worker processes of `ontodex index` on one machine.

Each computes with one thread, so that the bytes are the same for any number of workers; a worker
ends when the command that started it does, even by kill -9.
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
from ontodex.index_block import Task, answer
from ontodex.types import Corpus, Doc

# Read by BLAS, OpenMP and torch when a process starts.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
AHEAD = 2  # blocks handed out for each worker: one at work, one that waits

H = TypeVar("H")


class Block(NamedTuple):
    """Consecutive documents that are answered together."""

    number: int
    start: int
    end: int

    def docs(self, corpus: Corpus) -> list[Doc]:
        return list(corpus.select(np.arange(self.start, self.end)))


def in_processes(
    task: Task, corpus: Corpus, blocks: Sequence[Block], *, workers: int
) -> Iterator[tuple[int, bytes]]:
    """(number, part) of each block, as they are finished."""
    assert corpus.folder is not None
    folder, workers = corpus.folder, min(workers, len(blocks))
    spawn = multiprocessing.get_context("spawn")  # a fork would copy locks of threads
    with (
        _environment(ONE_THREAD),
        ProcessPoolExecutor(workers, mp_context=spawn, initializer=_begin) as pool,
    ):
        try:
            yield from handed_out(
                blocks,
                lambda block: pool.submit(_answer_block, task, folder, block),
                _first_done,
                at_once=AHEAD * workers,
            )
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process was ended from outside, perhaps for its memory",
                hint="start the same command again: it goes on where it stopped; "
                "fewer --workers need less memory",
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def handed_out(
    blocks: Iterable[Block],
    submit: Callable[[Block], H],
    first_done: Callable[[list[H]], list[tuple[H, bytes]]],
    *,
    at_once: int,
) -> Iterator[tuple[int, bytes]]:
    """(number, part) of each block; only `at_once` are out at a time, so memory is bounded."""
    out: dict[H, int] = {}
    for block in blocks:
        out[submit(block)] = block.number
        if len(out) >= at_once:
            yield from ((out.pop(handle), part) for handle, part in first_done(list(out)))
    while out:
        yield from ((out.pop(handle), part) for handle, part in first_done(list(out)))


def _first_done(futures: list[Future[bytes]]) -> list[tuple[Future[bytes], bytes]]:
    done, _ = wait(futures, return_when=FIRST_COMPLETED)
    return [(future, future.result()) for future in done]


def _begin() -> None:
    """Runs in a worker, first: leave Ctrl-C to the command, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _answer_block(task: Task, folder: Path, block: Block) -> bytes:
    """Runs in a worker."""
    return answer(task, block.docs(_opened(folder)))


@lru_cache(maxsize=1)
def _opened(folder: Path) -> Corpus:
    return Corpus.open(folder)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """These variables for processes started meanwhile."""
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
