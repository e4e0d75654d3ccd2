"""The ontology over HTTP."""

from __future__ import annotations

import pytest

from ontodex.runs.recipe import train
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.serve.prediction.run_view import RunView
from ontodex.types import Corpus, Doc


def get(client, path, **query):
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(concepts):
    return [concept["name"] for concept in concepts]


def test_roots_and_children_are_listed_by_name(client):
    top = get(client, "/ontology")
    assert names(top["roots"]) == ["Nature", "Road safety"]
    assert top["total"] == 2
    below = get(client, "/ontology/children", label="nature")
    assert names(below["children"]) == ["Animals", "Oak"]
    assert below["children"][0]["n_children"] == 2
    assert get(client, "/ontology/children", label="nature", offset=1)["total"] == 2
    assert names(get(client, "/ontology/children", label="nature", offset=1)["children"]) == ["Oak"]


def test_a_concept_tells_all_that_is_known(client):
    fish = get(client, "/ontology/concept", label="fish")
    assert fish["synonyms"] == ["Pisces"]
    assert (fish["notation"], fish["definition"]) == ("12", "Cold-blooded, in water.")
    assert names(fish["parents"]) == ["Animals"]
    assert fish["frequency"] == 12
    assert names(fish["path"]) == ["Nature", "Animals", "Fish"]


def test_ids_with_slashes_are_labels_like_others(client):
    assert get(client, "/ontology/concept", label="http://e.org/road")["name"] == "Road safety"


def test_paths_lead_from_a_root(client):
    (path,) = get(client, "/ontology/paths", label="newt")["paths"]
    assert [step["label"] for step in path] == ["nature", "animals", "newt"]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("road safety", "name"),
        ("pisces", "synonym"),
        ("12", "notation"),
        ("roa", "prefix"),
        ("raod safety", "similar"),
    ],
)
def test_search_forgives_beginnings_and_typos(client, query, kind):
    hit = get(client, "/ontology/search", q=query)["hits"][0]
    assert hit["label"] in ("fish", "http://e.org/road")
    assert hit["kind"] == kind


def test_an_unknown_concept_is_not_found(client):
    for path in ("children", "concept", "paths"):
        assert client.get(f"/ontology/{path}", params={"label": "whale"}).status_code == 404


def test_a_run_without_ontology_has_its_labels_as_roots(start, tmp_path):
    docs = Corpus.of([Doc(str(i), {"text": "trout"}, (), ("fish",)) for i in range(20)])
    out = tmp_path / "flat"
    train(config={"model": {"name": "popularity"}}, out=out, train=docs)
    client = start({"flat": RunView("flat", RunMetadata.open(out))})
    assert names(get(client, "/ontology")["roots"]) == ["fish"]
    body = {"documents": [{"text": "x"}]}
    (found,) = client.post("/suggest", json=body).json()["results"][0]["suggestions"]
    assert (found["label"], found["path"]) == ("fish", [])
    assert client.get("/runs").json()["runs"][0]["has_ontology"] is False
    explain = client.post("/explain", json={"document": {"text": "x"}})
    assert (explain.status_code, "cannot explain" in explain.json()["detail"]) == (409, True)
