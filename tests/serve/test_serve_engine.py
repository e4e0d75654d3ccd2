"""The engine: batches, a bounded queue, errors that hit only their own request."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from ontodex.errors import DataError
from ontodex.models.base import Ranked
from ontodex.run import Explanation
from ontodex.serve.engine import BusyError, Engine, TooSlowError
from ontodex.types import Doc, Ranking


@dataclass
class Gate:
    """A run that waits until it is let go, and tells which batches it ranked."""

    opened: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    batches: list[list[str]] = field(default_factory=list)

    def rank(self, docs: list[Doc]) -> Ranked:
        self.entered.set()
        assert self.opened.wait(10)
        ids = [doc.id for doc in docs]
        self.batches.append(ids)
        if "poison" in ids:
            raise DataError("a document that cannot be read")
        lengths = np.array([[len(id_)] for id_ in ids], np.int32)
        ranking = Ranking(lengths, np.ones(lengths.shape, np.float32))
        return Ranked(ranking, ranking, ranking)

    def explain(self, doc: Doc, label: str | None) -> Explanation:
        raise AssertionError("nobody asks")


def doc(id_: str) -> Doc:
    return Doc(id_, {"text": id_})


def answers(coroutines, engine, gate):
    """Start the first, wait until the thread holds it, then queue the others; then let go."""

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
        engine.stop()


def test_what_waits_is_ranked_together_by_run_and_answered_apart():
    gate, other = Gate(), Gate()
    other.opened.set()
    engine = Engine({"a": gate, "b": other}, batch=3)
    jobs = [("a", "x"), ("a", "xx"), ("b", "xxx"), ("a", "xxxx"), ("a", "xxxxx"), ("a", "xxxxxx")]
    found = answers([engine.rank(run, [doc(id_)]) for run, id_ in jobs], engine, gate)
    assert [ranked.ranking.columns[0, 0] for ranked in found] == [1, 2, 3, 4, 5, 6]
    assert gate.batches == [["x"], ["xx", "xxxx", "xxxxx"], ["xxxxxx"]]
    assert other.batches == [["xxx"]]
    assert engine.waiting == 0


def test_a_full_queue_refuses_and_says_when_to_come_back():
    gate = Gate()
    engine = Engine({"a": gate}, capacity=2)
    found = answers([engine.rank("a", [doc("x")]) for _ in range(5)], engine, gate)
    refused = [error for error in found if isinstance(error, BusyError)]
    assert len(refused) == 2
    assert all(1 <= error.retry_after <= 60 for error in refused)


def test_what_could_not_be_answered_in_time_is_refused_at_once():
    gate = Gate()
    engine = Engine({"a": gate}, capacity=100, timeout=4.0)
    engine._seconds_a_doc = 1.0  # as of a slow system
    found = answers([engine.rank("a", [doc("x")]) for _ in range(8)], engine, gate)
    assert sum(isinstance(error, BusyError) for error in found) == 4  # one is ranked, three wait


def test_a_request_larger_than_the_queue_is_taken_when_nothing_waits():
    gate = Gate()
    gate.opened.set()
    engine = Engine({"a": gate}, capacity=2, batch=2)
    (found,) = answers([engine.rank("a", [doc("x")] * 5)], engine, gate)
    assert len(found.ranking) == 5


def test_an_error_hits_only_its_own_request():
    gate = Gate()
    engine = Engine({"a": gate})
    ids = ["x", "xx", "poison", "xxx"]
    found = answers([engine.rank("a", [doc(id_)]) for id_ in ids], engine, gate)
    assert isinstance(found[2], DataError)
    assert [found[i].ranking.columns[0, 0] for i in (0, 1, 3)] == [1, 2, 3]


def test_an_answer_that_takes_too_long_is_given_up_and_never_computed():
    gate = Gate()
    engine = Engine({"a": gate}, timeout=0.05)

    async def two():
        first = asyncio.create_task(engine.rank("a", [doc("x")]))
        while not gate.entered.is_set():
            await asyncio.sleep(0)
        with pytest.raises(TooSlowError, match=r"within 0\.05 s"):
            await engine.rank("a", [doc("late")])
        with pytest.raises(TooSlowError):
            await first

    try:
        asyncio.run(two())
    finally:
        gate.opened.set()
        engine.stop()
    assert gate.batches == [["x"]]


def test_stopping_answers_what_was_accepted():
    gate = Gate()
    engine = Engine({"a": gate})

    async def stop_in_the_middle():
        tasks = [asyncio.create_task(engine.rank("a", [doc("x" * i)])) for i in (1, 2, 3)]
        await asyncio.sleep(0)
        gate.opened.set()
        await asyncio.to_thread(engine.stop)
        return await asyncio.gather(*tasks)

    assert [r.ranking.columns[0, 0] for r in asyncio.run(stop_in_the_middle())] == [1, 2, 3]


def test_other_work_runs_on_the_same_thread():
    gate = Gate()
    gate.opened.set()
    engine = Engine({"a": gate})

    async def name():
        return await engine.call("a", lambda run: threading.current_thread().name)

    try:
        assert asyncio.run(name()).startswith("models")
    finally:
        engine.stop()


def test_a_full_queue_is_429_with_retry_after(start):
    client = start(queue=1)
    client.app._service.engine._waiting = 1
    for path in ("/suggest", "/v1/projects/small/suggest", "/v1/projects/small/suggest-batch"):
        answer = client.post(path, json={"documents": [{"text": "trout"}]})
        assert (answer.status_code, answer.json()["title"]) == (429, "Too Many Requests")
        assert int(answer.headers["retry-after"]) >= 1


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


def test_nothing_is_ranked_for_a_client_that_hung_up(start):
    app, gate = start().app, Gate()
    engine = app._service.engine = Engine({"small": gate})
    body = json.dumps({"documents": [{"id": "late", "text": "trout"}]}).encode()
    coming = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        while len(coming) == 1 and not engine.waiting:
            await asyncio.sleep(0)
        return coming.pop(0)

    async def send(message):
        sent.append(message)

    async def hang_up_while_waiting():
        first = asyncio.create_task(engine.rank("small", [doc("first")]))
        while not gate.entered.is_set():
            await asyncio.sleep(0)
        await app(dict(SCOPE), receive, send)
        gate.opened.set()
        await first

    try:
        asyncio.run(hang_up_while_waiting())
    finally:
        gate.opened.set()
        engine.stop()
    assert gate.batches == [["first"]]
    assert sent == []
    assert 'status="499"' in app._service.figures.text({})
