"""The log contains no text of a document."""

from __future__ import annotations

import io
import json
import logging

from ontodex.serve.http.json_log import JsonFormatter

SECRET = "the minister's unpublished letter"


def test_no_error_and_no_log_line_contains_text_of_a_document(client):
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("ontodex.serve")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        answers = [
            client.post("/suggest", json={"documents": [{"text": SECRET, "limit": SECRET}]}),
            client.post("/suggest", json={"documents": [{"text": SECRET}]}),
            client.post("/suggest", content=SECRET, headers={"content-type": "application/json"}),
            client.get("/ontology/search", params={"q": SECRET}),
        ]
        failed = logger.makeRecord("uvicorn.error", 40, "", 1, "failed", (), _make_exc_info(), None)
        handler.handle(failed)
    finally:
        logger.removeHandler(handler)
    assert [answer.status_code for answer in answers] == [422, 200, 400, 200]
    assert not any(SECRET in answer.text for answer in answers[:3])
    rows = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert {row["route"] for row in rows[:-1]} == {"/suggest", "/ontology/search"}
    assert (rows[-1]["error"], "_make_exc_info" in rows[-1]["at"][-1]) == ("ValueError", True)
    assert SECRET not in lines.getvalue()


def _make_exc_info():
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        return type(error), error, error.__traceback__
