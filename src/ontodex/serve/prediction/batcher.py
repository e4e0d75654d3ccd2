"""Queue of documents, and batches of them for the models. One thread calls the models.

    predict(run, docs) ─ bounded queue ─ a task takes a batch of one run ─ answers

No request waits for a batch to fill: a task takes the waiting documents, so a single request is
ranked at once and simultaneous requests share a batch. Batching changes no answer: no system's
answer depends on the batch (the contract suite checks each), and all rankings have the same depth.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ontodex.errors import OntodexError
from ontodex.serve.http.traces import Traces
from ontodex.serve.prediction.ranker import Ranker
from ontodex.types import Doc
from ontodex.types.answers import PredictionResult

T = TypeVar("T")
MAX_RETRY_AFTER = 60  # seconds
FIRST_ESTIMATE = 0.01  # seconds per document, before any batch was ranked
SMOOTHING = 0.1  # weight of the newest batch in the estimate


class QueueFullError(OntodexError):
    """The queue is full."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("too many documents are waiting", hint=f"try again in {retry_after} s")
        self.retry_after = retry_after


class AnswerTimeoutError(OntodexError):
    """An answer took longer than allowed."""

    def __init__(self, seconds: float, retry_after: int) -> None:
        super().__init__(f"no answer within {seconds:g} s", hint="send fewer or shorter documents")
        self.retry_after = retry_after


class RetiredRunError(OntodexError):
    """A request that took longer than its version of the run was kept."""

    def __init__(self) -> None:
        super().__init__("another version of the run is served now", hint="send the request again")


@dataclass(eq=False)
class _Job:
    """Documents to rank with a run or, with `work`, another call of the run."""

    run: str
    docs: Sequence[Doc]
    work: Callable[[Ranker], Any] | None = None
    trace: Any = None
    answer: Future[Any] = field(default_factory=Future)

    @property
    def size(self) -> int:
        return max(1, len(self.docs))


class Batcher:
    """Ranks the documents of many requests. It calls `observe(n_docs, seconds)` for each batch."""

    def __init__(
        self,
        runs: Mapping[str, Ranker],
        *,
        capacity: int = 256,
        batch: int = 64,
        timeout: float = 30.0,
        observe: Callable[[int, float], None] = lambda n_docs, seconds: None,
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces or Traces()
        self._runs, self._batch, self._timeout, self._observe = runs, batch, timeout, observe
        self.capacity = capacity
        self._jobs: deque[_Job] = deque()
        self._waiting = 0  # documents
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="models")
        self._seconds_per_doc = FIRST_ESTIMATE
        self._resume = asyncio.Lock()

    def add_rankers(self, rankers: Mapping[str, Ranker]) -> None:
        """Add runs, or replace those of the same keys."""
        self._runs = {**self._runs, **rankers}

    async def remove_rankers(self, kept: Collection[str]) -> None:
        """Remove the runs of all other keys, after the batch that is ranked now."""
        await asyncio.wrap_future(self._thread.submit(lambda: None))
        self._runs = {key: run for key, run in self._runs.items() if key in kept}

    @property
    def waiting(self) -> int:
        """The number of documents that no task has taken yet."""
        return self._waiting

    @property
    def is_full(self) -> bool:
        """True if the queue has no room, or if a new document might not be answered in time."""
        is_late = self._waiting * self._seconds_per_doc > self._timeout / 2
        return is_late or self._waiting >= self.capacity

    def make_full_error(self) -> QueueFullError:
        """Return the refusal, with the time in which the waiting documents should be ranked."""
        return QueueFullError(self._estimate_retry_after())

    async def predict(self, run: str, docs: Sequence[Doc]) -> PredictionResult:
        """Return the run's predictions for the documents."""
        answer: PredictionResult = await self._submit(_Job(run, docs))
        return answer

    async def call(self, run: str, work: Callable[[Ranker], T]) -> T:
        """Run another call of the model, in a task of its own."""
        return await self._submit(_Job(run, (), work))

    def stop(self) -> None:
        """Answer the waiting documents, then end the thread."""
        self._thread.shutdown(wait=True)

    async def _submit(self, job: _Job) -> Any:
        with self._lock:
            has_no_room = self.is_full or self._waiting + job.size > self.capacity
            if self._waiting and has_no_room:
                raise self.make_full_error()
            self._waiting += job.size
            job.trace = self._traces.begin_rank(len(job.docs))
            self._jobs.append(job)
        self._start(_BatchTask(self))
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(job.answer), self._timeout)
        except TimeoutError:
            raise AnswerTimeoutError(self._timeout, self._estimate_retry_after()) from None
        # A batch ends for many requests at once. They continue one by one, so that the event loop
        # can accept other requests in between.
        async with self._resume:
            await asyncio.sleep(0)
        return answer

    def _start(self, task: _BatchTask) -> None:
        self._thread.submit(task).add_done_callback(task.deliver_error)

    def _estimate_retry_after(self) -> int:
        """Return the whole seconds until the waiting documents should be ranked."""
        return min(MAX_RETRY_AFTER, max(1, math.ceil(self._waiting * self._seconds_per_doc)))

    def _take(self) -> list[_Job]:
        """Take the oldest job and others of its run, up to a batch of documents."""
        with self._lock:
            taken: list[_Job] = []
            left: deque[_Job] = deque()
            room = self._batch
            while self._jobs and room > 0:
                job = self._jobs.popleft()
                is_exclusive = job.work is not None
                if taken and (job.run != taken[0].run or is_exclusive or job.size > room):
                    left.append(job)
                    continue
                self._waiting -= job.size
                if not job.answer.set_running_or_notify_cancel():
                    continue  # the client has gone
                taken.append(job)
                room = 0 if is_exclusive else room - job.size
            self._jobs.extendleft(reversed(left))
            return taken

    def _process(self, jobs: Sequence[_Job]) -> None:
        """Rank the documents of the jobs together and give each job its part of the answer."""
        first = jobs[0]
        run = self._runs.get(first.run)
        if run is None:
            raise RetiredRunError
        with self._traces.trace_batch(first.run, [job.trace for job in jobs]):
            self._answer(jobs, run)

    def _answer(self, jobs: Sequence[_Job], run: Ranker) -> None:
        first = jobs[0]
        if first.work is not None:
            first.answer.set_result(first.work(run))
            return
        docs = [doc for job in jobs for doc in job.docs]
        started = time.perf_counter()
        result = run.predict(docs)
        seconds = time.perf_counter() - started
        self._observe(len(docs), seconds)
        self._seconds_per_doc += SMOOTHING * (seconds / len(docs) - self._seconds_per_doc)
        start = 0
        for job in jobs:
            job.answer.set_result(result.take(start, start + len(job.docs)))
            start += len(job.docs)


class _BatchTask:
    """One task of the thread: it takes jobs, and gives each an answer or an error."""

    def __init__(self, batcher: Batcher, jobs: Sequence[_Job] = ()) -> None:
        self._batcher, self._jobs = batcher, jobs

    def __call__(self) -> None:
        # Earlier tasks may have taken all jobs; then there is nothing to do.
        self._jobs = self._jobs or self._batcher._take()
        if self._jobs:
            self._batcher._process(self._jobs)

    def deliver_error(self, task: Future[None]) -> None:
        """Give an error to the one job that caused it; other jobs of the batch are retried."""
        error = task.exception()
        if error is None:
            return
        for job in self._jobs:
            if len(self._jobs) == 1:
                job.answer.set_exception(error)
            else:
                self._batcher._start(_BatchTask(self._batcher, [job]))
