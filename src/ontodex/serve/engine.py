"""One thread asks the models. What waits for the same run is ranked together.

    rank(run, docs) ─ waiting (bounded) ─ a turn takes all it may of one run ─ answers

Nothing waits for a batch to fill: a turn takes what is there, so one request alone goes at once and
many at a time share the work. Batches change no answer, because no system's answer depends on the
batch (the contract suite asks that of each) and the depth of the ranking is always the same.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ontodex.errors import OntodexError
from ontodex.models.base import Ranked
from ontodex.serve.ranked import Ranker
from ontodex.types import Doc

T = TypeVar("T")
LONGEST_RETRY = 60  # seconds


class BusyError(OntodexError):
    """The queue is full."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("too many documents are waiting", hint=f"try again in {retry_after} s")
        self.retry_after = retry_after


class TooSlowError(OntodexError):
    """An answer took longer than allowed."""

    def __init__(self, seconds: float, retry_after: int) -> None:
        super().__init__(f"no answer within {seconds:g} s", hint="send fewer or shorter documents")
        self.retry_after = retry_after


@dataclass(eq=False)
class _Job:
    """Documents to rank with a run; or, with `work`, something else that needs the models."""

    run: str
    docs: Sequence[Doc]
    work: Callable[[Ranker], Any] | None = None
    answer: Future[Any] = field(default_factory=Future)

    @property
    def size(self) -> int:
        return max(1, len(self.docs))


class Engine:
    """Ranks documents for many at a time. `observe(n_docs, seconds)` is told of each batch."""

    def __init__(
        self,
        runs: Mapping[str, Ranker],
        *,
        capacity: int = 256,
        batch: int = 64,
        timeout: float = 30.0,
        observe: Callable[[int, float], None] = lambda n_docs, seconds: None,
    ) -> None:
        self._runs, self._batch, self._timeout, self._observe = runs, batch, timeout, observe
        self.capacity = capacity
        self._jobs: deque[_Job] = deque()
        self._waiting = 0  # documents
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="models")
        self._seconds_a_doc = 0.01
        self._door = asyncio.Lock()

    @property
    def waiting(self) -> int:
        """Documents that no turn has taken yet."""
        return self._waiting

    @property
    def is_full(self) -> bool:
        """As many wait as may, or so many that the next might not be answered in time."""
        is_late = self._waiting * self._seconds_a_doc > self._timeout / 2
        return is_late or self._waiting >= self.capacity

    def busy(self) -> BusyError:
        """The refusal, with the time in which what waits now should be done."""
        return BusyError(self._retry_after())

    async def rank(self, run: str, docs: Sequence[Doc]) -> Ranked:
        """What the run says about each document."""
        answer: Ranked = await self._answer(_Job(run, docs))
        return answer

    async def call(self, run: str, work: Callable[[Ranker], T]) -> T:
        """Something else that needs the model, alone in its turn."""
        return await self._answer(_Job(run, (), work))

    def stop(self) -> None:
        """Answer what waits, then end the thread."""
        self._thread.shutdown(wait=True)

    async def _answer(self, job: _Job) -> Any:
        with self._lock:
            no_room = self.is_full or self._waiting + job.size > self.capacity
            if self._waiting and no_room:
                raise self.busy()
            self._waiting += job.size
            self._jobs.append(job)
        self._start(_Turn(self))
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(job.answer), self._timeout)
        except TimeoutError:
            raise TooSlowError(self._timeout, self._retry_after()) from None
        # A batch ends for many at once. They go on one by one, so that others are heard between.
        async with self._door:
            await asyncio.sleep(0)
        return answer

    def _start(self, turn: _Turn) -> None:
        self._thread.submit(turn).add_done_callback(turn.deliver_error)

    def _retry_after(self) -> int:
        return min(LONGEST_RETRY, max(1, math.ceil(self._waiting * self._seconds_a_doc)))

    def _take(self) -> list[_Job]:
        """The job that waited longest, and others of its run, up to a batch of documents."""
        with self._lock:
            taken: list[_Job] = []
            left: deque[_Job] = deque()
            room = self._batch
            while self._jobs and room > 0:
                job = self._jobs.popleft()
                alone = job.work is not None
                if taken and (job.run != taken[0].run or alone or job.size > room):
                    left.append(job)
                    continue
                self._waiting -= job.size
                if not job.answer.set_running_or_notify_cancel():
                    continue  # nobody waits for it any more
                taken.append(job)
                room = 0 if alone else room - job.size
            self._jobs.extendleft(reversed(left))
            return taken

    def _work(self, jobs: Sequence[_Job]) -> None:
        first = jobs[0]
        run = self._runs[first.run]
        if first.work is not None:
            first.answer.set_result(first.work(run))
            return
        docs = [doc for job in jobs for doc in job.docs]
        started = time.perf_counter()
        ranked = run.rank(docs)
        seconds = time.perf_counter() - started
        self._observe(len(docs), seconds)
        self._seconds_a_doc += 0.1 * (seconds / len(docs) - self._seconds_a_doc)
        at = 0
        for job in jobs:
            job.answer.set_result(ranked.take(at, at + len(job.docs)))
            at += len(job.docs)


class _Turn:
    """One turn of the thread: it takes jobs, and gives each an answer or the error."""

    def __init__(self, engine: Engine, jobs: Sequence[_Job] = ()) -> None:
        self._engine, self._jobs = engine, jobs

    def __call__(self) -> None:
        # Earlier turns may have taken everything: then this one has nothing to do.
        self._jobs = self._jobs or self._engine._take()
        if self._jobs:
            self._engine._work(self._jobs)

    def deliver_error(self, turn: Future[None]) -> None:
        """An error belongs to one job: those that only shared its batch get another turn."""
        error = turn.exception()
        if error is None:
            return
        for job in self._jobs:
            if len(self._jobs) == 1:
                job.answer.set_exception(error)
            else:
                self._engine._start(_Turn(self._engine, [job]))
