"""Probes, status and metrics."""

from __future__ import annotations

import re
import time


def test_metrics_count_requests_and_batches(client):
    client.post("/suggest", json={"documents": [{"text": "trout"}] * 3})
    client.get("/nothing")
    text = client.get("/metrics").text
    assert 'ontodex_requests_total{method="POST",route="/suggest",status="200"} 1' in text
    assert 'route="other",status="404"} 1' in text
    assert "ontodex_batch_documents_sum 3.0" in text
    status = client.get("/status").json()
    assert status["n_ranked"] == 3
    assert status["requests"]["answered"] >= 3
    assert status["latency_ms"]["p50"] > 0


def test_the_service_is_ready_until_it_stops(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").status_code == 200
    client.app._service.is_stopping = True
    assert client.get("/readyz").status_code == 503
    answer = client.post("/suggest", json={"documents": [{"text": "trout"}]})
    assert answer.status_code == 200, "a balancer may not have noticed yet"


def test_the_start_time_has_full_precision(client):
    started = re.findall(r"^ontodex_start_time_seconds (\S+)$", client.get("/metrics").text, re.M)
    assert 0 <= time.time() - float(started[0]) < 3600
