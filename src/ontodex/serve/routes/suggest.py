"""POST /suggest and /explain."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import Problem
from ontodex.serve.prediction.concept_view import ConceptGroups
from ontodex.serve.prediction.ranker import Ranker
from ontodex.serve.prediction.run_view import RunView, SuggestOptions
from ontodex.serve.requests import ExplainBody, ExplainOptionsBody, SuggestBody, SuggestOptionsBody
from ontodex.serve.responses import ExplanationResponse, SuggestResponse
from ontodex.serve.service import Service, ServiceDep
from ontodex.types import Doc
from ontodex.types.answers import Explanation

router = APIRouter(route_class=BoundedRoute, tags=["suggestions"])


@router.post("/suggest", response_model=SuggestResponse)
async def suggest(body: SuggestBody, service: ServiceDep) -> Any:
    """Suggest concepts for one or many documents."""
    run = service.find_run(body.run)
    options = read_options(body, run)
    docs = [document.to_doc() for document in body.documents]
    result = await service.batcher.predict(run.ranker_key, docs)
    results = [
        {
            "id": doc.id,
            "suggestions": run.build_suggestions(result.take(row), options),
            "warnings": run.list_warnings([doc]),
        }
        for row, doc in enumerate(docs)
    ]
    # A response, not a dict: FastAPI would validate a dict against the model again.
    return JSONResponse({"run": run.name, "results": results})


@router.post("/explain", response_model=ExplanationResponse)
async def explain(body: ExplainBody, service: ServiceDep) -> Any:
    """Return the pieces of a text that support a concept or are evidence against it."""
    return await explain_doc(service, service.find_run(body.run), body.document.to_doc(), body)


def read_options(body: SuggestOptionsBody, run: RunView) -> SuggestOptions:
    """Return the options of a request. Unknown labels are refused before the document waits."""
    options = SuggestOptions(
        body.limit,
        body.threshold,
        body.label_set_only,
        body.include,
        body.exclude,
        body.language,
        ConceptGroups(
            tuple(body.exclude_subtrees), tuple(body.exclude_schemes), tuple(body.exclude_types)
        ),
    )
    run.find_columns(options.include)
    run.find_excluded(options)
    return options


async def explain_doc(
    service: Service, run: RunView, doc: Doc, body: ExplainOptionsBody
) -> JSONResponse:
    """Return the run's explanation of one label, or of the best label, of a document."""
    label = body.label
    if label is not None and label not in run.metadata.labels.column:
        raise Problem(404, f"the run {run.name!r} has no concept {label[:200]!r}")

    def work(ranker: Ranker) -> Explanation:
        return ranker.explain(doc, label)

    explanation = await service.batcher.call(run.ranker_key, work)
    answer = {
        "run": run.name,
        "label": explanation.label,
        "name": run.concepts.get_name(explanation.label, body.language),
        "probability": explanation.probability,
        "text": explanation.text,
        "spans": [
            {"start": span.start, "end": span.end, "weight": span.weight}
            for span in explanation.spans
        ],
        "warnings": run.list_warnings([doc]),
    }
    # Not a dict: to validate the spans of a long text again would hold up all other requests.
    return JSONResponse(answer)
