"""Histograms, quantiles and Prometheus text, computed by hand."""

from __future__ import annotations

from ontodex.serve.http.metrics import Histogram, ServiceMetrics


def test_a_histogram_counts_values_up_to_each_bound():
    histogram = Histogram((1, 2))
    for value in (1, 1.5, 2, 9):
        histogram.add(value)
    assert list(histogram.render_lines("x", 'a="b"')) == [
        'x_bucket{a="b",le="1"} 1',
        'x_bucket{a="b",le="2"} 3',
        'x_bucket{a="b",le="+Inf"} 4',
        'x_sum{a="b"} 13.500000',
        'x_count{a="b"} 4',
    ]


def test_the_summary_counts_requests_batches_and_latencies():
    metrics = ServiceMetrics()
    for status in (200, 404, 429, 429, 503):
        metrics.record_request("POST", "/suggest", status, 0.1)
    for milliseconds in range(1, 100):
        metrics.record_request("POST", "/suggest", 200, milliseconds / 1000)
    metrics.record_request("GET", "/runs", 200, 9.0)  # not a suggestion
    metrics.record_batch(3, 0.1)
    metrics.record_batch(4, 0.1)
    summary = metrics.summarize()
    assert summary["requests"] == {"answered": 102, "rejected": 2, "failed": 1}
    # 100 successful suggestions, sorted: 1, 2, ..., 99, 100 ms; index 50 and index 99
    assert summary["latency_ms"] == {"p50": 51.0, "p99": 100.0}
    assert (summary["n_ranked"], summary["mean_batch_size"]) == (7, 3.5)


def test_without_requests_there_is_no_latency():
    summary = ServiceMetrics().summarize()
    assert summary["latency_ms"] == {"p50": None, "p99": None}
    assert summary["mean_batch_size"] is None


def test_quotes_in_routes_are_escaped_for_prometheus():
    metrics = ServiceMetrics()
    metrics.record_request("GET", 'a"b\\c', 200, 0.1)
    assert 'route="a\\"b\\\\c"' in metrics.render_prometheus({"queue": 2})
    assert "ontodex_queue 2\n" in metrics.render_prometheus({"queue": 2})
