"""Schemathesis over every operation, with good and with bad values: never a 5xx.

ONTODEX_FUZZ sets how many examples an operation gets of each; the slow suite takes a few.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

pytestmark = pytest.mark.slow
schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = int(os.environ.get("ONTODEX_FUZZ", "15"))


@pytest.fixture
def described(start):
    client = start(names=("testserver",))
    client.post("/documents", json={"documents": [{"text": "trout"}, {"text": "oak"}]})
    wanted = {"document": 1, "label": "fish", "verdict": "accept"}
    client.post("/decisions", json={"decisions": [wanted] * 3})
    return schemathesis.openapi.from_asgi("/openapi.json", client.app)


KNOWN = {
    "run": "small",
    "project_id": "small",
    "number": 1,
    "id": 1,
    "document": 1,
    "label": "fish",
}


def aim(case) -> None:
    """Put names that exist where chance never finds one, so that the rest is looked at too."""
    for part in (case.path_parameters, case.query, case.body):
        if isinstance(part, dict):
            part.update({key: KNOWN[key] for key in KNOWN.keys() & part.keys()})


def fuzz(operation, mode) -> int:
    """Ask one operation many times; how often it did what was asked."""
    from schemathesis import checks

    asked = fulfilled = 0

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        nonlocal asked, fulfilled
        asked += 1
        if asked % 2:
            aim(case)
        response = case.call(timeout=120)
        fulfilled += response.status_code < 300
        case.validate_response(
            response,
            checks=[
                checks.not_a_server_error,
                checks.response_schema_conformance,
                checks.content_type_conformance,
                checks.status_code_conformance,
            ],
        )

    with suppress(Unsatisfiable):  # some parameters take any text: nothing is wrong for them
        ask()
    return fulfilled


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_breaks_the_service(described, mode):
    fulfilled = {}
    for result in described.get_all_operations():
        operation = result.ok()
        can_be_wrong = operation.body or list(operation.iter_parameters())
        if mode == "POSITIVE" or can_be_wrong:
            found = fuzz(operation, schemathesis.GenerationMode[mode])
            fulfilled[f"{operation.method} {operation.path}"] = found
    assert len(fulfilled) > 20
    if mode == "POSITIVE":
        for one in ("post /suggest", "get /ontology/concept", "put /documents/{number}/state"):
            assert fulfilled[one] > 0, one
        assert fulfilled["post /v1/projects/{project_id}/suggest"] > 0
