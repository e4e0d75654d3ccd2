"""Spans of requests, batches and rankings: what they tell, and what they never contain."""

from __future__ import annotations

import sys
import time

import pytest
import sqlalchemy as sa

from ontodex.errors import ConfigError, MissingExtraError
from ontodex.serve.http.traces import OpenTelemetryTraces, Traces, open_traces

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
DOCUMENT = {"documents": [{"text": "a confidential trout"}]}


@pytest.fixture
def exporter():
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OpenTelemetryTraces(provider)


def by_name(exporter):
    found = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def test_a_request_has_a_span_and_its_ranking_is_below_it(start, traces, exporter):
    assert start(traces=traces).post("/suggest", json=DOCUMENT).status_code == 200
    for _ in range(1_000):  # the ranking may end after the answer
        if "rank" in by_name(exporter):
            break
        time.sleep(0.01)
    found = by_name(exporter)
    (request,), (rank,), (batch,) = found["request"], found["rank"], found["batch"]
    assert dict(request.attributes) == {
        "http.request.method": "POST",
        "http.route": "/suggest",
        "http.response.status_code": 200,
    }
    assert rank.parent.span_id == request.context.span_id
    assert rank.attributes["ontodex.documents"] == 1
    assert rank.attributes["ontodex.wait_ms"] >= 0
    assert request.start_time <= rank.start_time <= batch.start_time
    assert [link.context.span_id for link in rank.links] == [batch.context.span_id]
    assert batch.parent is None
    assert dict(batch.attributes) == {"ontodex.run": "small", "ontodex.documents": 1}
    assert [link.context.span_id for link in batch.links] == [request.context.span_id]


def test_requests_that_are_ranked_together_share_a_batch(traces, exporter):
    contexts = []
    for n_docs in (1, 3):
        with traces.trace_request("POST", "/suggest", {}):
            contexts.append(traces.begin_rank(n_docs))
    with traces.trace_batch("small", contexts):
        pass
    found = by_name(exporter)
    (batch,) = found["batch"]
    assert batch.attributes["ontodex.documents"] == 4
    requests = {span.context.span_id for span in found["request"]}
    assert {link.context.span_id for link in batch.links} == requests
    assert {span.parent.span_id for span in found["rank"]} == requests


def test_no_span_has_text_of_a_document_or_an_error(start, traces, exporter):
    client = start(traces=traces)
    client.post("/suggest", json=DOCUMENT)
    client.post("/explain", json={"document": {"text": "a confidential trout"}})
    client.post("/suggest", json={"documents": [{"text": "confidential"}], "include": ["secret"]})
    client.get("/ontology/search?q=confidential")
    client.get("/confidential")
    with pytest.raises(RuntimeError), traces.trace_batch("small", [traces.begin_rank(1)]):
        raise RuntimeError("confidential")
    spans = exporter.get_finished_spans()
    assert {span.name for span in spans} == {"request", "rank", "batch"}
    assert not any("confidential" in span.to_json() for span in spans)
    assert by_name(exporter)["batch"][-1].status.status_code.name == "ERROR"


def test_probes_have_no_spans_and_a_server_error_is_marked(start, traces, exporter):
    client = start(traces=traces)
    for path in ("/healthz", "/readyz", "/metrics"):
        assert client.get(path).status_code == 200
    assert exporter.get_finished_spans() == ()
    client.app._service.database._engine = sa.create_engine("sqlite:////no/such/folder/d")
    assert client.post("/documents", json=DOCUMENT).status_code == 503
    (span,) = by_name(exporter)["request"]
    assert span.status.status_code.name == "ERROR"


def test_the_span_of_a_head_request_has_its_route(start, traces, exporter):
    start(traces=traces).head("/me")
    (span,) = exporter.get_finished_spans()
    assert span.attributes["http.route"] == "/me"


def test_only_the_proxy_names_the_trace(start, traces, exporter):
    start(traces=traces, address="10.0.0.1", proxies=("10.0.0.1",)).get("/me", headers=TRACEPARENT)
    start(traces=traces, address="10.0.0.2", proxies=("10.0.0.1",)).get("/me", headers=TRACEPARENT)
    proxied, direct = exporter.get_finished_spans()
    assert format(proxied.context.trace_id, "032x") == TRACE
    assert format(proxied.parent.span_id, "016x") == PARENT
    assert direct.parent is None


def test_without_an_address_nothing_is_traced_and_a_wrong_one_is_a_sentence():
    assert type(open_traces("")) is Traces
    with pytest.raises(ConfigError, match="address of a collector"):
        open_traces("collector:4317")


def test_a_missing_library_is_a_sentence(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("opentelemetry.exporter.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    with pytest.raises(MissingExtraError, match="opentelemetry") as caught:
        open_traces("http://127.0.0.1:4318/v1/traces")
    assert "ontodex[traces]" in caught.value.hint
