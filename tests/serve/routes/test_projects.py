"""Two vocabularies in one service: their documents and concepts never meet."""

from __future__ import annotations

import pytest

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.serve.prediction.run_view import RunView
from ontodex.types import Corpus, Doc


@pytest.fixture(scope="module")
def roads(tmp_path_factory):
    """A run with another vocabulary."""
    out = tmp_path_factory.mktemp("projects") / "roads"
    docs = Corpus.of(Doc(str(i), {"text": "cars brake"}, (), ("car",)) for i in range(8))
    ontology = build_ontology([Concept("car", {"en": "Cars"})], title="Road thesaurus")
    config = {"model": {"name": "popularity"}}
    train(config=config, out=out, train=docs, dev=docs, ontology=ontology)
    return RunView("roads", RunMetadata.open(out))


@pytest.fixture
def two(start, served, roads):
    client = start(runs={"small": served, "roads": roads})
    first, second = client.get("/runs").json()["runs"]
    assert first["project"] != second["project"]
    for project, text in ((first["project"], "A trout"), (second["project"], "A car")):
        body = {"documents": [{"text": text}], "project": project}
        assert client.post("/documents", json=body).status_code == 201
    client.projects = first["project"], second["project"]
    return client


def test_each_vocabulary_has_its_own_queue(two):
    for project, title in zip(two.projects, ("A trout", "A car"), strict=True):
        found = two.get("/documents", params={"project": project}).json()
        assert [each["title"] for each in found["documents"]] == [title]
        assert (found["n_open"], len(found["batches"])) == (1, 1)
    assert two.get("/documents").json()["documents"][0]["title"] == "A trout"
    by_run = two.get("/documents/next", params={"run": "roads"}).json()
    assert by_run["document"]["text"] == "A car"


def test_a_run_of_another_vocabulary_is_refused_for_a_document(two):
    for path in ("/documents/2/suggest", "/documents/2/explain"):
        answer = two.post(path, json={"run": "small"})
        assert answer.status_code == 409
        assert "belongs to project" in answer.json()["detail"]
    wanted = {"document": 2, "label": "fish", "verdict": "add"}
    assert two.post("/decisions", json={"decisions": [wanted]}).status_code == 404
    wanted["run"] = "small"
    assert two.post("/decisions", json={"decisions": [wanted]}).status_code == 409
    assert two.post("/documents/2/suggest", json={}).json()["run"] == "roads"


def test_an_export_has_the_documents_of_one_vocabulary(two, decide):
    decide(two, 1, "fish")
    decide(two, 2, "car")
    lines = two.get("/export", params={"run": "roads"}).text.splitlines()
    assert len(lines) == 1
    assert '"labels": ["car"]' in lines[0]


def test_projects_are_named_by_their_vocabulary_and_can_be_renamed(two, decide):
    decide(two, 2, "car")
    first, second = two.get("/projects").json()["projects"]
    assert (first["name"], first["runs"]) == ("small", ["small"])
    assert (second["name"], second["n_open"]) == ("Road thesaurus", 1)
    assert second["people"] == [{"user": "local", "n_decisions": 1}]
    renamed = two.put(f"/projects/{second['id']}", json={"name": "Roads"}).json()
    assert renamed["name"] == "Roads"
    assert two.put("/projects/99", json={"name": "x"}).status_code == 404
    taken = two.put(f"/projects/{first['id']}", json={"run": "roads"})
    assert taken.status_code == 409, "its documents would have concepts of two vocabularies"


def test_people_are_shown_side_by_side(client, decide):
    client.post("/documents", json={"documents": [{"text": "A trout"}]})
    decide(client, 1, "fish")
    service = client.app._app.state.service
    from ontodex.serve.database.tables import NewDecision

    new = [NewDecision(1, "fish", "reject"), NewDecision(1, "oak", "add")]
    service.database.write_decisions(new, user="bob")
    found = client.get("/documents/1/people").json()
    shown = {
        each["user"]: {v["label"]: v["verdict"] for v in each["verdicts"]}
        for each in found["people"]
    }
    assert shown == {"bob": {"fish": "reject", "oak": "add"}, "local": {"fish": "accept"}}
    assert found["pairs"] == [{"users": ["bob", "local"], "n_documents": 1, "agreement": 0.0}]
    assert client.get("/agreement").json()["pairs"] == found["pairs"]


def test_a_project_that_does_not_exist_is_not_found(client):
    for body in ({}, {"name": "x"}):
        answer = client.put("/projects/4880", json=body)
        assert answer.status_code == 404
        assert "no project 4880" in answer.json()["detail"]
    body = {"documents": [{"text": "lost"}], "project": 4880}
    assert client.post("/documents", json=body).status_code == 404
    assert client.get("/documents/1").status_code == 404, "it would be in no queue"


def test_replicas_of_one_database_agree_about_the_projects(start, served, roads):
    runs = {"small": served, "roads": roads}
    one, other = start(runs=runs), start(runs=runs)
    first, second = [run["project"] for run in other.get("/runs").json()["runs"]]
    assert one.put(f"/projects/{first}", json={"run": "roads"}).status_code == 200
    assert other.get("/runs").json()["runs"][1]["project"] == first
    body = {"documents": [{"text": "A car"}], "project": second}
    assert other.post("/documents", json=body).status_code == 404, "the empty project is gone"
