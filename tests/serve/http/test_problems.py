"""Errors are problem documents (RFC 9457)."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ontodex.errors import DataError, OntodexError, RunError
from ontodex.serve.database.tables import ConflictError, UnknownRowError
from ontodex.serve.http.problems import convert_error
from ontodex.serve.prediction.batcher import AnswerTimeoutError, QueueFullError
from ontodex.serve.prediction.model_process import ModelProcessDiedError


def test_errors_are_problem_documents(client):
    wrong = {
        "/nothing": ("GET", 404),
        "/suggest": ("GET", 405),
        "/documents/99": ("GET", 404),
        "/documents/0": ("GET", 422),
        "/documents/x": ("GET", 422),
        "/decisions/99999999999999999999/undo": ("POST", 422),
        "/runs/none": ("GET", 404),
        "/runs/small/report": ("GET", 404),
    }
    for path, (method, status) in wrong.items():
        answer = client.request(method, path)
        assert answer.status_code == status, path
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
    broken = client.post("/suggest", content=b"{", headers={"content-type": "application/json"})
    assert broken.status_code == 400


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QueueFullError(7), 429),
        (AnswerTimeoutError(1.0, 3), 503),
        (ModelProcessDiedError(), 503),
        (UnknownRowError("x"), 404),
        (ConflictError("x"), 409),
        (DataError("x"), 422),
        (RunError("x"), 409),
        (OntodexError("x"), 422),
    ],
)
def test_a_library_error_has_a_status_and_keeps_its_hint(error, status):
    problem = convert_error(error)
    assert problem.status_code == status
    assert problem.to_dict().get("hint", "") == error.hint
    retry_after = getattr(error, "retry_after", None)
    assert problem.headers == ({} if retry_after is None else {"retry-after": str(retry_after)})


def test_no_path_of_the_server_is_in_a_problem():
    error = DataError("not JSON", path=Path("/srv/secret/a.jsonl"), line=3)
    assert "/srv/secret" in str(error)
    assert "/srv" not in convert_error(error).detail
    assert "a.jsonl" in convert_error(error).detail


def test_a_bug_is_a_500_without_its_message(start):
    client = start()
    service = client.app._service

    def fail(batch):
        raise KeyError("words of a document")

    service.database.queue.count = fail
    quiet = TestClient(client.app, base_url="http://localhost", raise_server_exceptions=False)
    answer = quiet.get("/documents")
    assert (answer.status_code, answer.json()["title"]) == (500, "Internal Server Error")
    assert "words" not in answer.text
