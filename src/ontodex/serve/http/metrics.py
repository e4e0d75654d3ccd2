"""Counters and latencies of the service, as Prometheus text and for `GET /status`."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
RECENT = 1_000  # suggestions whose latency `GET /status` reports


class Histogram:
    """Counts of values by upper bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts = bounds, [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def render_lines(self, name: str, tags: str = "") -> Iterator[str]:
        """Yield the cumulative counts in the text format of Prometheus."""
        seen, comma = 0, "," if tags else ""
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            seen += count
            yield f'{name}_bucket{{{tags}{comma}le="{bound}"}} {seen}'
        braces = f"{{{tags}}}" if tags else ""
        yield f"{name}_sum{braces} {self.total:.6f}"
        yield f"{name}_count{braces} {seen}"


class ServiceMetrics:
    """Metrics since the start. The event loop and the thread of the batcher both write them."""

    def __init__(self) -> None:
        self.started = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._batch_sizes, self._batch_seconds = Histogram(SIZES), Histogram(SECONDS)
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._lock = threading.Lock()

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request. `route` is the template, so there are few of them."""
        with self._lock:
            self._requests[method, route, status] += 1
            self._seconds.setdefault(route, Histogram(SECONDS)).add(seconds)
            if route.endswith("suggest") and status < 400:
                self._recent.append(seconds)

    def record_batch(self, n_docs: int, seconds: float) -> None:
        """Count one batch of ranked documents."""
        with self._lock:
            self._batch_sizes.add(n_docs)
            self._batch_seconds.add(seconds)

    def summarize(self) -> dict[str, object]:
        """Return the metrics that `GET /status` shows."""
        with self._lock:
            recent = sorted(self._recent)
            n_batches = sum(self._batch_sizes.counts)
            n_docs = int(self._batch_sizes.total)
            statuses = Counter[int]()
            for (_, _, status), count in self._requests.items():
                statuses[status] += count
        failed = sum(n for status, n in statuses.items() if status >= 500)
        return {
            "uptime_seconds": round(time.time() - self.started, 1),
            "requests": {
                "answered": statuses.total() - failed - statuses[429],
                "rejected": statuses[429],
                "failed": failed,
            },
            "latency_ms": {
                "p50": _compute_quantile(recent, 0.5),
                "p99": _compute_quantile(recent, 0.99),
            },
            "n_ranked": n_docs,
            "mean_batch_size": round(n_docs / n_batches, 2) if n_batches else None,
        }

    def render_prometheus(self, gauges: Mapping[str, float]) -> str:
        """Return all metrics and some current values in the text format of Prometheus."""
        with self._lock:
            lines = ["# TYPE ontodex_requests_total counter"]
            lines += [
                f'ontodex_requests_total{{method="{method}",route="{_escape(route)}",'
                f'status="{status}"}} {count}'
                for (method, route, status), count in sorted(self._requests.items())
            ]
            lines.append("# TYPE ontodex_request_seconds histogram")
            for route, histogram in sorted(self._seconds.items()):
                tags = f'route="{_escape(route)}"'
                lines += histogram.render_lines("ontodex_request_seconds", tags)
            lines.append("# TYPE ontodex_batch_documents histogram")
            lines += self._batch_sizes.render_lines("ontodex_batch_documents")
            lines.append("# TYPE ontodex_batch_seconds histogram")
            lines += self._batch_seconds.render_lines("ontodex_batch_seconds")
        for name, value in gauges.items():
            lines += [f"# TYPE ontodex_{name} gauge", f"ontodex_{name} {value:.15g}"]
        return "\n".join(lines) + "\n"


def _compute_quantile(ordered: list[float], q: float) -> float | None:
    """Return a quantile of sorted seconds, in milliseconds; None if there are no values."""
    if not ordered:
        return None
    return round(1000 * ordered[min(len(ordered) - 1, int(q * len(ordered)))], 2)


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
