"""Schemathesis over every operation, with good and with bad values: never a 5xx.

    ONTODEX_FUZZ=500 python -m pytest -m slow tests/serve/test_schema.py

asks each operation so often in both ways and prints a table; the slow suite takes a few.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from ontodex.serve.http import api_keys

pytestmark = pytest.mark.slow
schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = int(os.environ.get("ONTODEX_FUZZ", "15"))


@pytest.fixture
def key(tmp_path):
    return api_keys.add_key(tmp_path / "keys.tsv", "ada")


@pytest.fixture
def schema(start, tmp_path, key):
    client = start(allowed_hosts=("testserver",), keys=tmp_path / "keys.tsv")
    client.headers["authorization"] = f"Bearer {key}"
    client.post("/documents", json={"documents": [{"text": "trout"}, {"text": "oak"}]})
    wanted = {"document": 1, "label": "fish", "verdict": "accept"}
    client.post("/decisions", json={"decisions": [wanted] * 3})
    return schemathesis.openapi.from_asgi(
        "/openapi.json", client.app, headers={"authorization": f"Bearer {key}"}
    )


KNOWN = {
    "run": "small",
    "project_id": "small",
    "number": 1,
    "id": 1,
    "document": 1,
    "label": "fish",
}


def aim(part, known) -> None:
    """Insert names that exist, which random values never hit, so that other checks are reached."""
    if isinstance(part, dict):
        part.update({name: known[name] for name in known.keys() & part.keys()})
    if isinstance(part, dict | list):
        for below in part.values() if isinstance(part, dict) else part:
            aim(below, known)


@dataclass
class OperationLog:
    """The answers of one operation."""

    operation: str
    statuses: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def number(self, hundreds: int) -> int:
        return sum(status // 100 == hundreds for status in self.statuses)

    def row(self) -> str:
        n_2xx, n_4xx, n_5xx = (self.number(hundreds) for hundreds in (2, 4, 5))
        return (
            f"{self.operation:48} {len(self.statuses):8} {n_2xx:6} {n_4xx:6} {n_5xx:6} "
            f"{self.seconds:8.1f}\n"
        )


def fuzz(operation, mode, key) -> OperationLog:
    """Call one operation many times; one with few valid requests gets the same ones again."""
    from schemathesis import checks

    asked = OperationLog(f"{operation.method.upper()} {operation.path}")

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        if len(asked.statuses) % 2:
            for part in (case.path_parameters, case.query, case.body):
                aim(part, {**KNOWN, "key": key})
        response = case.call(timeout=120, headers={"authorization": f"Bearer {key}"})
        asked.statuses.append(response.status_code)
        case.validate_response(
            response,
            checks=[
                checks.not_a_server_error,
                checks.response_schema_conformance,
                checks.content_type_conformance,
                checks.status_code_conformance,
            ],
        )

    started = time.perf_counter()
    with suppress(Unsatisfiable):  # some parameters take any text: nothing is wrong for them
        ask()
        while mode == schemathesis.GenerationMode.POSITIVE and len(asked.statuses) < EXAMPLES:
            ask()
    asked.seconds = time.perf_counter() - started
    return asked


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_breaks_the_service(schema, key, mode, capsys):
    found = {}
    with capsys.disabled():
        say = sys.stdout.write if "ONTODEX_FUZZ" in os.environ else lambda line: None
        say(f"\n{mode.lower():48} examples    2xx    4xx    5xx  seconds\n")
        for result in schema.get_all_operations():
            operation = result.ok()
            if mode == "POSITIVE" or operation.body or list(operation.iter_parameters()):
                asked = fuzz(operation, schemathesis.GenerationMode[mode], key)
                found[asked.operation] = asked
                say(asked.row())
                sys.stdout.flush()
        total = sum(len(asked.statuses) for asked in found.values())
        say(f"{len(found)} operations, {total:,} requests\n")
    assert len(found) > 20
    assert all(asked.number(5) == 0 for asked in found.values())
    if mode == "POSITIVE":
        assert all(len(asked.statuses) >= EXAMPLES for asked in found.values())
        for one in (
            "POST /suggest",
            "GET /ontology/concept",
            "PUT /documents/{number}/state",
            "POST /decisions",
            "POST /login",
            "POST /v1/projects/{project_id}/suggest",
        ):
            assert found[one].number(2) > 0, one
