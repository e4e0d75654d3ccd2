"""/suggest and /explain."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from ontodex.run import Explanation
from ontodex.serve.answers import ExplanationAnswer, SuggestAnswer
from ontodex.serve.bodies import Explain, Suggest, Wanted
from ontodex.serve.problems import Problem
from ontodex.serve.ranked import Ranker
from ontodex.serve.served import Ask, Served
from ontodex.serve.service import Service, TheService
from ontodex.types import Doc

router = APIRouter(tags=["suggestions"])


def ask_of(wanted: Wanted) -> Ask:
    return Ask(
        wanted.limit,
        wanted.threshold,
        wanted.chosen,
        wanted.include,
        wanted.exclude,
        wanted.language,
    )


@router.post("/suggest", response_model=SuggestAnswer)
async def suggest(body: Suggest, service: TheService) -> Any:
    """Concepts for one or many documents."""
    served = service.run(body.run)
    ask = ask_of(body)
    served.columns([*ask.include, *ask.exclude])  # refused before it takes a place in the queue
    ranked = await service.engine.rank(served.name, [document.doc() for document in body.documents])
    results = [
        {
            "id": document.id,
            "suggestions": served.suggestions(ranked.take(row), ask),
        }
        for row, document in enumerate(body.documents)
    ]
    # A response, not a dict: what we made ourselves is not checked against its model again.
    return JSONResponse({"run": served.name, "results": results})


@router.post("/explain", response_model=ExplanationAnswer)
async def explain(body: Explain, service: TheService) -> Any:
    """The pieces of a text that speak for a concept, or against it."""
    return await explanation(service, service.run(body.run), body.document.doc(), body.label)


async def explanation(
    service: Service, served: Served, doc: Doc, label: str | None
) -> dict[str, Any]:
    """What the run says about one label of a document."""
    if label is not None and label not in served.run.labels.column:
        raise Problem(404, f"the run {served.name!r} knows no concept {label[:200]!r}")

    def work(run: Ranker) -> Explanation:
        return run.explain(doc, label)

    found = await service.engine.call(served.name, work)
    return {
        "run": served.name,
        "label": found.label,
        "name": found.name,
        "probability": found.probability,
        "text": found.text,
        "spans": [
            {"start": span.start, "end": span.end, "weight": span.weight} for span in found.spans
        ],
    }
