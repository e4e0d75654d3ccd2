"""Decisions over HTTP: valid ones, undone ones, repeated ones."""

from __future__ import annotations

import pytest


def verdicts(client, number):
    return {v["label"]: v["verdict"] for v in client.get(f"/documents/{number}").json()["verdicts"]}


def test_a_decision_stores_user_time_run_and_probability(queue, decide):
    (first, *_) = queue.post("/documents/1/suggest", json={}).json()["suggestions"]
    assert (first["label"], first["verdict"]) == ("fish", None)
    made = decide(queue, 1, "fish", run="small")
    assert (made["user"], made["run"], made["name"]) == ("local", "small", "Fish")
    assert made["probability"] == pytest.approx(first["probability"], abs=1e-6)
    assert made["time"].endswith("Z")
    again = queue.post("/documents/1/suggest", json={}).json()["suggestions"][0]
    assert again == {**first, "verdict": "accept"}
    assert decide(queue, 1, "newt", "add")["probability"] is None


def test_the_last_decision_is_valid_and_undo_restores_the_one_before(queue, decide):
    first = decide(queue, 1, "fish")
    second = decide(queue, 1, "fish", "reject")
    assert verdicts(queue, 1) == {"fish": "reject"}
    assert queue.post(f"/decisions/{second['id']}/undo").json()["undone"] is True
    assert verdicts(queue, 1) == {"fish": "accept"}
    assert queue.post(f"/decisions/{second['id']}/undo").status_code == 409
    queue.post(f"/decisions/{first['id']}/undo")
    assert verdicts(queue, 1) == {}
    log = queue.get("/decisions", params={"document": 1}).json()["decisions"]
    assert [(d["verdict"], d["undone"]) for d in log] == [("accept", True), ("reject", True)]
    assert queue.post("/decisions/99/undo").status_code == 404


def test_a_repeated_request_id_is_written_once(queue, decide):
    first = decide(queue, 1, "fish", request_id="r1")
    assert decide(queue, 1, "fish", request_id="r1") == first
    assert len(queue.get("/decisions").json()["decisions"]) == 1
    other = {"document": 1, "label": "oak", "verdict": "accept", "request_id": "r1"}
    assert queue.post("/decisions", json={"decisions": [other]}).status_code == 409


def test_decisions_are_written_all_or_none(queue):
    good = {"document": 1, "label": "fish", "verdict": "accept"}
    for bad in ({**good, "document": 99}, {**good, "label": "whale"}, {**good, "run": "none"}):
        answer = queue.post("/decisions", json={"decisions": [good, bad]})
        assert answer.status_code == 404
    assert queue.get("/decisions").json()["decisions"] == []
