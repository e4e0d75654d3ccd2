"""GET /healthz, /readyz, /status and /metrics: probes and monitoring."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from ontodex import __version__
from ontodex.serve.database.connection import hide_password
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import Problem
from ontodex.serve.responses import Health, Readiness, StatusResponse
from ontodex.serve.service import ServiceDep

router = APIRouter(route_class=BoundedRoute, tags=["service"])


@router.get("/healthz", response_model=Health)
async def get_health() -> dict[str, str]:
    """Answer while the process lives."""
    return {"status": "ok"}


@router.get("/readyz", response_model=Readiness)
def get_readiness(service: ServiceDep) -> Response:
    """Answer 200 while new requests can be answered, else 503."""
    if not service.is_ready:
        return Problem(503, "not ready", headers={"retry-after": "5"}).to_response()
    return JSONResponse({"status": "ready"})


@router.get("/status", response_model=StatusResponse)
def get_status(service: ServiceDep) -> Any:
    """Return current figures of queue, requests, latency and decisions."""
    batcher, database = service.batcher, service.database
    return {
        "version": __version__,
        "database": hide_password(service.config.database),
        **service.metrics.summarize(),
        "queue": {"waiting": batcher.waiting, "capacity": batcher.capacity},
        "documents": database.queue.count(),
        "n_decisions": database.count_decisions(),
        "n_quarantined": database.quarantine.count_documents(),
    }


@router.get("/metrics", response_class=PlainTextResponse)
async def get_metrics(service: ServiceDep) -> Response:
    """Return the metrics in the text format of Prometheus."""
    batcher = service.batcher
    gauges = {
        "queue_documents": batcher.waiting,
        "queue_capacity": batcher.capacity,
        "start_time_seconds": service.metrics.started,
        "quarantined_documents": service.database.quarantine.n_documents,
        "damaged_decisions": len(service.database.quarantine.decisions),
    }
    text = service.metrics.render_prometheus(gauges)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")
