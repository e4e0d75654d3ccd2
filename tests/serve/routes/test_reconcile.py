"""The requests that OpenRefine sends to a reconciliation service."""

from __future__ import annotations

import json

import pytest

URL = "/reconcile/small"
OPENREFINE = "http://127.0.0.1:3333"
CONCEPT = "http://www.w3.org/2004/02/skos/core#Concept"


def test_the_manifest_describes_every_part_of_the_service(client):
    manifest = client.get(URL).json()
    assert "0.2" in manifest["versions"]
    assert manifest["identifierSpace"].startswith("urn:")
    assert manifest["defaultTypes"] == [{"id": CONCEPT, "name": "Concept"}]
    for kind in ("entity", "type", "property"):
        place = manifest["suggest"][kind]
        path = place["service_url"] + place["service_path"]
        assert client.get(path, params={"prefix": ""}).status_code == 200
    proposed = manifest["extend"]["propose_properties"]
    path = proposed["service_url"] + proposed["service_path"]
    assert client.get(path, params={"type": CONCEPT, "limit": 50}).json()["type"] == CONCEPT
    assert client.get(manifest["preview"]["url"].replace("{{id}}", "fish")).status_code == 200


def test_a_batch_of_queries_is_answered_by_key(client):
    queries = {
        "q0": {"query": "Fish", "limit": 3, "type": CONCEPT, "type_strict": "should"},
        "q1": {"query": "Newt", "properties": [{"pid": "broader", "v": {"id": "animals"}}]},
        "q2": {"query": "nothing like this"},
        "q3": {"query": "Fish", "type": ["http://e.org/Person"]},
        "q4": {"properties": [{"pid": "prefLabel", "v": ["Oak"]}]},
    }
    answers = [
        client.post(URL, data={"queries": json.dumps(queries)}).json(),
        client.get(URL, params={"queries": json.dumps(queries)}).json(),
    ]
    assert answers[0] == answers[1]
    found = {key: [one["id"] for one in answer["result"]] for key, answer in answers[0].items()}
    assert found == {"q0": ["fish"], "q1": ["newt"], "q2": [], "q3": [], "q4": ["oak"]}
    assert answers[0]["q1"]["result"][0]["match"] is True
    assert answers[0]["q0"]["result"][0]["type"] == [{"id": CONCEPT, "name": "Concept"}]


def test_a_table_is_extended(client):
    extend = {"ids": ["fish"], "properties": [{"id": "notation"}, {"id": "broader"}]}
    answer = client.post(URL, data={"extend": json.dumps(extend)}).json()
    assert answer["rows"] == {
        "fish": {"notation": [{"str": "12"}], "broader": [{"id": "animals", "name": "Animals"}]}
    }


def test_names_types_and_properties_are_completed(client):
    def complete(kind: str, prefix: str) -> list[str]:
        answer = client.get(f"{URL}/suggest/{kind}", params={"prefix": prefix}).json()
        return [one["id"] for one in answer["result"]]

    assert complete("entity", "fi") == ["fish"]
    assert complete("type", "con") == [CONCEPT]
    assert complete("property", "broa") == ["broader"]
    assert client.get(f"{URL}/suggest/flyout").status_code == 422


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({}, 422),
        ({"queries": "{"}, 400),
        ({"queries": "[]"}, 422),
        ({"queries": '{"q": {"limit": 0}}'}, 422),
        ({"queries": json.dumps({str(i): {"query": "x"} for i in range(201)})}, 422),
        ({"extend": '{"ids": ["fish"]}'}, 422),
    ],
)
def test_wrong_forms_are_problems(client, form, status):
    answer = client.post(URL, data=form)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_unknown_run_or_concept_is_not_found(client):
    assert client.get("/reconcile/nosuch").status_code == 404
    assert client.get(f"{URL}/preview", params={"id": "nosuch"}).status_code == 404


def test_only_an_allowed_site_may_use_it_and_only_here(start):
    client = start(allowed_origins=(OPENREFINE,))
    theirs = {"origin": OPENREFINE, "sec-fetch-site": "cross-site"}
    answer = client.get(URL, headers=theirs)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == OPENREFINE
    framed = client.get(
        f"{URL}/preview", params={"id": "fish"}, headers={"sec-fetch-site": "cross-site"}
    )
    assert f"frame-ancestors {OPENREFINE}" in framed.headers["content-security-policy"]
    assert client.get("/documents", headers=theirs).status_code == 403
    other = client.get(URL, headers={"origin": "http://evil.example"})
    assert other.status_code == 403
    assert "access-control-allow-origin" not in other.headers


def test_without_an_allowed_site_every_other_site_is_refused(client):
    assert client.get(URL, headers={"origin": OPENREFINE}).status_code == 403
    assert (
        "frame-ancestors 'none'"
        in client.get(f"{URL}/preview", params={"id": "fish"}).headers["content-security-policy"]
    )
