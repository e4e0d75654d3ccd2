"""/projects: vocabularies with their queues and people, and the agreement of the people."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from ontodex.serve.agreement import compare_pairs
from ontodex.serve.database.tables import UnknownRowError
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.requests import Number, ProjectBody
from ontodex.serve.responses import AgreementResponse, Project, ProjectsResponse
from ontodex.serve.service import Service, ServiceDep

router = APIRouter(route_class=BoundedRoute, tags=["documents"])
ProjectQuery = Annotated[Number | None, Query()]


@router.get("/projects", response_model=ProjectsResponse)
def list_projects(service: ServiceDep) -> Any:
    """List the projects; those without a run are of vocabularies that are not served now."""
    return {"projects": _list_projects(service)}


@router.put("/projects/{id}", response_model=Project)
def change_project(id: Annotated[Number, Path()], body: ProjectBody, service: ServiceDep) -> Any:
    """Rename a project, or give it the vocabulary of a run: a newer version of its own."""
    if body.name is not None:
        service.database.projects.rename(id, body.name)
    if body.run is not None:
        run = service.find_run(body.run)
        service.database.projects.replace_vocabulary(id, run.vocabulary_key)
    for project in _list_projects(service):
        if project["id"] == id:
            return project
    raise UnknownRowError(f"there is no project {id}")


@router.get("/agreement", response_model=AgreementResponse)
def get_agreement(service: ServiceDep, project: ProjectQuery = None) -> Any:
    """Return how well each two people agree on the documents that both decided."""
    found = service.database.find_verdicts_of_people(project=service.find_project(project))
    return {"pairs": compare_pairs(found)}


def _list_projects(service: Service) -> list[dict[str, Any]]:
    project_of_run = {name: service.get_project(run) for name, run in service.runs.items()}
    return [
        {**row, "runs": [name for name, project in project_of_run.items() if project == row["id"]]}
        for row in service.database.projects.list_all()
    ]
