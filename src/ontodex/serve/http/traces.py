"""Traces of requests for OpenTelemetry (extra `traces`): how long a request waited, and for what.

    request   one request, by the template of its route
      rank    its documents: waiting for a batch, and the batch; linked to that batch
    batch     the documents that the models ranked together; linked to their requests

A span has numbers and names of routes and runs. It never has text of a document, a path with
values, a query, a user or the message of an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from ontodex import __version__
from ontodex.errors import ConfigError, require

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

PROBES = ("/healthz", "/readyz", "/metrics")  # asked for every few seconds, and never slow
PURPOSE = "sending traces"

Finish = Callable[[str, int], None]  # takes the route and the status


class Traces:
    """The interface of traces; these are sent nowhere."""

    @contextmanager
    def trace_request(self, method: str, path: str, headers: Mapping[str, str]) -> Iterator[Finish]:
        """Trace a request, as part of the trace that its headers name."""
        yield lambda route, status: None

    def begin_rank(self, n_docs: int) -> Any:
        """Return what `trace_batch` needs to know of the present request."""
        return None

    @contextmanager
    def trace_batch(self, run: str, waiting: Sequence[Any]) -> Iterator[None]:
        """Trace a batch, and the ranking of each request whose documents are in it."""
        yield

    def close(self) -> None:
        """Send what was not sent yet."""


class OpenTelemetryTraces(Traces):
    """Traces in a provider of OpenTelemetry."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("ontodex", __version__)
        self._trace: Any = require("opentelemetry.trace", extra="traces", purpose=PURPOSE)
        self._context: Any = require("opentelemetry.context", extra="traces", purpose=PURPOSE)
        w3c = "opentelemetry.trace.propagation.tracecontext"
        module: Any = require(w3c, extra="traces", purpose=PURPOSE)
        self._propagator = module.TraceContextTextMapPropagator()

    @contextmanager
    def trace_request(self, method: str, path: str, headers: Mapping[str, str]) -> Iterator[Finish]:
        if path in PROBES:
            yield lambda route, status: None
            return
        with self._start(
            "request",
            context=self._propagator.extract(headers, self._context.Context()),
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.request.method": method},
        ) as span:

            def finish(route: str, status: int) -> None:
                span.set_attributes({"http.route": route, "http.response.status_code": status})
                if status >= 500:
                    span.set_status(self._trace.StatusCode.ERROR)

            yield finish

    def begin_rank(self, n_docs: int) -> tuple[Context, int, int]:
        return self._context.get_current(), time.time_ns(), n_docs

    @contextmanager
    def trace_batch(self, run: str, waiting: Sequence[tuple[Context, int, int]]) -> Iterator[None]:
        spans = [self._trace.get_current_span(context) for context, _, _ in waiting]
        links = [self._trace.Link(span.get_span_context()) for span in spans]
        n_docs = sum(n for _, _, n in waiting)
        attributes = {"ontodex.run": run, "ontodex.documents": n_docs}
        started = time.time_ns()
        with self._start(
            "batch", context=self._context.Context(), links=links, attributes=attributes
        ) as batch:
            try:
                yield
            except BaseException:
                batch.set_status(self._trace.StatusCode.ERROR)
                raise
            finally:
                link = self._trace.Link(batch.get_span_context())
                for context, submitted, n in waiting:
                    waited = {
                        "ontodex.documents": n,
                        "ontodex.wait_ms": (started - submitted) / 1e6,
                    }
                    rank = self._tracer.start_span(
                        "rank", context, attributes=waited, links=[link], start_time=submitted
                    )
                    rank.end()

    def close(self) -> None:
        self._provider.shutdown()

    def _start(self, name: str, **more: Any) -> AbstractContextManager[Any]:
        # The message of an exception may have text of a document.
        return self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False, **more
        )


def open_traces(address: str) -> Traces:
    """Return traces that go to a collector (OTLP over HTTP); without an address, to nobody."""
    if not address:
        return Traces()
    if not address.startswith(("http://", "https://")):
        raise ConfigError(
            f"--traces must be the address of a collector, not {address!r}",
            hint="such as http://127.0.0.1:4318/v1/traces",
        )
    names = ("exporter.otlp.proto.http.trace_exporter", "sdk.resources", "sdk.trace")
    exporter, resources, trace = (
        require(f"opentelemetry.{name}", extra="traces", purpose=PURPOSE) for name in names
    )
    export = require("opentelemetry.sdk.trace.export", extra="traces", purpose=PURPOSE)
    about = {"service.name": "ontodex", "service.version": __version__}
    provider = trace.TracerProvider(resource=resources.Resource.create(about))
    sender = exporter.OTLPSpanExporter(endpoint=address)
    provider.add_span_processor(export.BatchSpanProcessor(sender))
    return OpenTelemetryTraces(provider)
