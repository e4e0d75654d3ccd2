"""Every limit in docs/guide/deploy.md: its input is accepted, one above it is refused.

The inputs are those that bench/limits.py measures, and their sizes come from the code, so the page
cannot state another limit than the code has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from starlette.testclient import TestClient

from ontodex.errors import OntodexError
from ontodex.runs.run import load
from ontodex.serve.api import build_application
from ontodex.serve.database.database import Database
from ontodex.serve.http.metrics import ServiceMetrics
from ontodex.serve.prediction.batcher import Batcher
from ontodex.serve.prediction.ranker import LocalRanker
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.serve.prediction.run_view import RunView
from ontodex.serve.service import ServeConfig, Service

ROOT = Path(__file__).parents[2]


def import_limits() -> ModuleType:
    """Import bench/limits.py, whose modules import each other by name."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import limits
    finally:
        sys.path.remove(str(ROOT / "bench"))
    return limits


limits = import_limits()


def mark_slow(rows: tuple[Any, ...]) -> list[Any]:
    return [
        pytest.param(row, id=row.operation, marks=[pytest.mark.slow] if row.is_slow else [])
        for row in rows
    ]


FILES = pytest.mark.parametrize("limit", mark_slow(limits.FILE_LIMITS))
REQUESTS = pytest.mark.parametrize("limit", mark_slow(limits.REQUEST_LIMITS))


@FILES
def test_an_input_at_the_limit_is_accepted(limit, tmp_path):
    limit.attempt(0, tmp_path)


@FILES
def test_an_input_above_the_limit_is_refused(limit, tmp_path):
    with pytest.raises(OntodexError) as refused:
        limit.attempt(1, tmp_path)
    assert limit.refusal in str(refused.value)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service of one small run, with default settings and one stored document."""
    folder = tmp_path_factory.mktemp("limits")
    limits.train_small(folder)
    metrics = ServiceMetrics()
    batcher = Batcher({"small": LocalRanker(load(folder / "small"))}, observe=metrics.record_batch)
    service = Service(
        ServeConfig(),
        {"small": RunView("small", RunMetadata.open(folder / "small"))},
        Database.open(str(folder / "decisions.sqlite")),
        None,
        metrics,
        batcher,
    )
    with TestClient(build_application(service), base_url="http://localhost") as client:
        client.post("/documents", json={"documents": [{"text": limits.TEXT}]})
        yield client


def send(client: TestClient, request: Any) -> Any:
    headers = {"content-type": request.media_type}
    return client.request(request.method, request.path, content=request.body, headers=headers)


@REQUESTS
def test_a_request_at_the_limit_is_answered(limit, client):
    answer = send(client, limit.make(0))
    assert answer.status_code < 300, answer.text[:300]
    assert limit.refusal not in answer.text


@REQUESTS
def test_a_request_above_the_limit_is_refused(limit, client):
    answer = send(client, limit.make(1))
    assert answer.status_code == limit.status
    assert limit.refusal in answer.text


def test_the_guide_states_every_limit_of_the_code():
    page = (ROOT / "docs" / "guide" / "deploy.md").read_text(encoding="utf-8")
    rows = [limits.describe(row) for row in (*limits.FILE_LIMITS, *limits.REQUEST_LIMITS)]
    rows += [f"- {line}.\n" for line in limits.describe_settings()]
    assert [row for row in rows if row not in page] == []


def test_the_guide_has_no_row_without_a_limit_in_the_code():
    page = (ROOT / "docs" / "guide" / "deploy.md").read_text(encoding="utf-8")
    tables = page.partition(limits.BEGIN)[2].partition(limits.END)[0]
    n_rows = sum(line.startswith("| ") for line in tables.splitlines())
    headers = 2
    assert n_rows - headers == len(limits.FILE_LIMITS) + len(limits.REQUEST_LIMITS)
