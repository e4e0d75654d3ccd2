"""Batches, a bounded queue, and errors that reach only their own request."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from ontodex.errors import DataError
from ontodex.serve.prediction.batcher import AnswerTimeoutError, Batcher, QueueFullError
from ontodex.types import Doc, Ranking
from ontodex.types.answers import Explanation, PredictionResult


@dataclass
class Gate:
    """A run that waits for `opened` before it ranks, and records its batches."""

    opened: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    batches: list[list[str]] = field(default_factory=list)

    def predict(self, docs: list[Doc]) -> PredictionResult:
        self.entered.set()
        assert self.opened.wait(120)
        ids = [doc.id for doc in docs]
        self.batches.append(ids)
        if "poison" in ids:
            raise DataError("a document that cannot be read")
        lengths = np.array([[len(id_)] for id_ in ids], np.int32)
        ranking = Ranking(lengths, np.ones(lengths.shape, np.float32))
        return PredictionResult(ranking, ranking, ranking)

    def explain(self, doc: Doc, label: str | None) -> Explanation:
        raise AssertionError("no test explains")


def doc(id_: str) -> Doc:
    return Doc(id_, {"text": id_})


def answers(coroutines, batcher, gate):
    """Start the first, wait until the thread ranks it, queue the others, then open the gate."""

    async def all_of_them():
        first, *others = coroutines
        tasks = [asyncio.create_task(first)]
        while not gate.entered.is_set():
            await asyncio.sleep(0)
        for other in others:
            tasks.append(asyncio.create_task(other))
            await asyncio.sleep(0)
        gate.opened.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    try:
        return asyncio.run(all_of_them())
    finally:
        gate.opened.set()
        batcher.stop()


def test_waiting_documents_of_a_run_are_ranked_together_and_answered_separately():
    gate, other = Gate(), Gate()
    other.opened.set()
    batcher = Batcher({"a": gate, "b": other}, batch=3)
    jobs = [("a", "x"), ("a", "xx"), ("b", "xxx"), ("a", "xxxx"), ("a", "xxxxx"), ("a", "xxxxxx")]
    found = answers([batcher.predict(run, [doc(id_)]) for run, id_ in jobs], batcher, gate)
    assert [ranked.ranking.columns[0, 0] for ranked in found] == [1, 2, 3, 4, 5, 6]
    assert gate.batches == [["x"], ["xx", "xxxx", "xxxxx"], ["xxxxxx"]]
    assert other.batches == [["xxx"]]
    assert batcher.waiting == 0


def test_a_full_queue_refuses_with_the_seconds_to_wait():
    gate = Gate()
    batcher = Batcher({"a": gate}, capacity=2)
    found = answers([batcher.predict("a", [doc("x")]) for _ in range(5)], batcher, gate)
    refused = [error for error in found if isinstance(error, QueueFullError)]
    assert len(refused) == 2
    assert all(1 <= error.retry_after <= 60 for error in refused)


def test_a_document_that_cannot_be_answered_in_time_is_refused_at_once():
    gate = Gate()
    batcher = Batcher({"a": gate}, capacity=100, timeout=4.0)
    batcher._seconds_per_doc = 1.0  # as of a slow system
    found = answers([batcher.predict("a", [doc("x")]) for _ in range(8)], batcher, gate)
    assert (
        sum(isinstance(error, QueueFullError) for error in found) == 4
    )  # one is ranked, three wait


class TimedRun:
    """A run that takes a given number of seconds on a fake clock."""

    def __init__(self, monkeypatch):
        self.now, self.seconds = 100.0, 0.0
        monkeypatch.setattr("ontodex.serve.prediction.batcher.time.perf_counter", lambda: self.now)

    def predict(self, docs):
        self.now += self.seconds
        ranking = Ranking(np.zeros((len(docs), 1), np.int32), np.ones((len(docs), 1), np.float32))
        return PredictionResult(ranking, ranking, ranking)


def test_the_time_per_document_is_an_exponential_moving_average(monkeypatch):
    run, observed = TimedRun(monkeypatch), []
    batcher = Batcher({"a": run}, observe=lambda *batch: observed.append(batch))

    async def rank_two_batches():
        run.seconds = 8.0
        await batcher.predict("a", [doc("x")] * 4)  # 2 s per document
        first = batcher._seconds_per_doc
        run.seconds = 1.0
        await batcher.predict("a", [doc("x")] * 2)  # 0.5 s per document
        return first, batcher._seconds_per_doc

    try:
        first, second = asyncio.run(rank_two_batches())
    finally:
        batcher.stop()
    assert observed == [(4, 8.0), (2, 1.0)]
    assert first == pytest.approx(0.9 * 0.01 + 0.1 * 2.0)  # 0.209
    assert second == pytest.approx(0.9 * 0.209 + 0.1 * 0.5)  # 0.2381


def test_the_estimate_decides_the_retry_time_and_when_the_queue_is_full():
    batcher = Batcher({}, capacity=1000, timeout=10.0)
    batcher._seconds_per_doc = 0.209
    batcher._waiting = 23  # 23 * 0.209 = 4.807: less than half of the timeout
    assert not batcher.is_full
    assert batcher.make_full_error().retry_after == 5
    batcher._waiting = 24  # 24 * 0.209 = 5.016
    assert batcher.is_full
    assert batcher.make_full_error().retry_after == 6
    batcher._waiting = 1
    assert batcher.make_full_error().retry_after == 1
    batcher._waiting = 900
    assert batcher.make_full_error().retry_after == 60
    batcher.stop()


def test_a_request_larger_than_the_queue_is_taken_when_nothing_waits():
    gate = Gate()
    gate.opened.set()
    batcher = Batcher({"a": gate}, capacity=2, batch=2)
    (found,) = answers([batcher.predict("a", [doc("x")] * 5)], batcher, gate)
    assert len(found.ranking) == 5


def test_an_error_reaches_only_its_own_request():
    gate = Gate()
    batcher = Batcher({"a": gate})
    ids = ["x", "xx", "poison", "xxx"]
    found = answers([batcher.predict("a", [doc(id_)]) for id_ in ids], batcher, gate)
    assert isinstance(found[2], DataError)
    assert [found[i].ranking.columns[0, 0] for i in (0, 1, 3)] == [1, 2, 3]


def test_after_the_timeout_a_waiting_document_is_never_ranked():
    gate = Gate()
    batcher = Batcher({"a": gate}, timeout=0.05)

    async def two():
        first = asyncio.create_task(batcher.predict("a", [doc("x")]))
        while not gate.entered.is_set():
            await asyncio.sleep(0)
        with pytest.raises(AnswerTimeoutError, match=r"within 0\.05 s"):
            await batcher.predict("a", [doc("late")])
        with pytest.raises(AnswerTimeoutError):
            await first

    try:
        asyncio.run(two())
    finally:
        gate.opened.set()
        batcher.stop()
    assert gate.batches == [["x"]]


def test_stopping_answers_the_accepted_documents():
    gate = Gate()
    batcher = Batcher({"a": gate})

    async def stop_in_the_middle():
        tasks = [asyncio.create_task(batcher.predict("a", [doc("x" * i)])) for i in (1, 2, 3)]
        await asyncio.sleep(0)
        gate.opened.set()
        await asyncio.to_thread(batcher.stop)
        return await asyncio.gather(*tasks)

    assert [r.ranking.columns[0, 0] for r in asyncio.run(stop_in_the_middle())] == [1, 2, 3]


def test_other_work_runs_on_the_same_thread():
    gate = Gate()
    gate.opened.set()
    batcher = Batcher({"a": gate})

    async def name():
        return await batcher.call("a", lambda run: threading.current_thread().name)

    try:
        assert asyncio.run(name()).startswith("models")
    finally:
        batcher.stop()


SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/suggest",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    "query_string": b"",
    "client": ("127.0.0.1", 1),
    "scheme": "http",
    "root_path": "",
}


def test_nothing_is_ranked_for_a_client_that_closed_the_connection(start):
    app, gate = start().app, Gate()
    batcher = app._service.batcher = Batcher({"small": gate})
    body = json.dumps({"documents": [{"id": "late", "text": "trout"}]}).encode()
    coming = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        while len(coming) == 1 and not batcher.waiting:
            await asyncio.sleep(0)
        return coming.pop(0)

    async def send(message):
        sent.append(message)

    async def hang_up_while_waiting():
        first = asyncio.create_task(batcher.predict("small", [doc("first")]))
        while not gate.entered.is_set():
            await asyncio.sleep(0)
        await app(dict(SCOPE), receive, send)
        gate.opened.set()
        await first

    try:
        asyncio.run(hang_up_while_waiting())
    finally:
        gate.opened.set()
        batcher.stop()
    assert gate.batches == [["first"]]
    assert sent == []
    assert 'status="499"' in app._service.metrics.render_prometheus({})
