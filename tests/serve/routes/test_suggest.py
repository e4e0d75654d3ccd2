"""Suggestions and explanations over HTTP are those of the library."""

from __future__ import annotations

import pytest

from ontodex.runs.run import load

TROUT = {"title": "A trout", "abstract": "swims in the cold stream"}


def suggest(client, **body):
    answer = client.post("/suggest", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def labels(client, **body):
    body.setdefault("documents", [TROUT])
    return [s["label"] for s in suggest(client, **body)["results"][0]["suggestions"]]


def test_a_suggestion_has_name_place_and_probability(client, run_folder):
    answer = suggest(client, documents=[{"id": "d1", **TROUT}], limit=1)
    (expected,) = load(run_folder).suggest("A trout\nswims in the cold stream", limit=1)
    (found,) = answer["results"][0]["suggestions"]
    assert answer["run"] == "small"
    assert answer["results"][0]["id"] == "d1"
    assert found["label"] == expected.label == "fish"
    assert found["probability"] == pytest.approx(expected.probability, abs=1e-6)
    assert [step["name"] for step in found["path"]] == ["Nature", "Animals", "Fish"]
    assert found["in_label_set"] is True
    assert found["other_parents"] == []
    assert found["standalone_probability"] == found["probability"]
    assert found["more_specific"] == []


def test_many_documents_are_answered_in_their_order(client):
    texts = ["trout in the stream", "oaks of the forest", "cars on the road"] * 10
    results = suggest(client, documents=[{"text": text} for text in texts], limit=1)["results"]
    found = [result["suggestions"][0]["label"] for result in results]
    assert found == ["fish", "oak", "http://e.org/road"] * 10


def test_batching_never_changes_an_answer(start):
    texts = [f"trout and oaks {i} stream road" for i in range(12)]
    alone, together = start(batch=1), start(batch=64)
    one = [suggest(alone, documents=[{"text": t}])["results"][0] for t in texts]
    many = suggest(together, documents=[{"text": text} for text in texts])["results"]
    assert one == many


def test_limits_thresholds_and_lists_are_kept(client):
    assert labels(client) == ["fish"]
    assert labels(client, exclude=["fish"]) == []
    assert labels(client, include=["newt"]) == ["fish", "newt"]
    assert labels(client, include=["newt"], limit=1) == ["newt"]
    assert labels(client, threshold=1.0, include=["oak"])[-1] == "oak"
    assert labels(client, label_set_only=True) == ["fish"]


def test_names_come_in_the_language_asked_for(client):
    (found,) = suggest(client, documents=[TROUT], language="de")["results"][0]["suggestions"]
    assert [step["name"] for step in found["path"]] == ["Natur", "Tiere", "Fische"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"documents": []}, "body.documents"),
        ({"documents": [{}]}, "body.documents.0"),
        ({"documents": [TROUT, {"text": ""}]}, "body.documents.1"),
        ({"documents": [{"title": " ", "text": "\n", "keywords": ["x"]}]}, "body.documents.0"),
        ({"documents": [{"text": "a\0b"}]}, "body.documents.0.text"),
        ({"documents": [{"text": "x", "txt": "y"}]}, "body.documents.0.txt"),
        ({"documents": [TROUT], "limit": 0}, "body.limit"),
        ({"documents": [TROUT], "threshold": 1.5}, "body.threshold"),
        ({"documents": [TROUT] * 65}, "body.documents"),
    ],
)
def test_a_wrong_value_is_named(client, body, where):
    answer = client.post("/suggest", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"][0]["location"] == where


def test_unknown_concepts_and_runs_are_refused(client):
    answer = client.post("/suggest", json={"documents": [TROUT], "include": ["whale"]})
    assert (answer.status_code, "whale" in answer.json()["detail"]) == (422, True)
    both = {"documents": [TROUT], "include": ["oak"], "exclude": ["oak"]}
    assert client.post("/suggest", json=both).status_code == 422
    assert client.post("/suggest", json={"documents": [TROUT], "run": "x"}).status_code == 404


def test_an_explanation_points_into_the_text_by_characters(client):
    text = "🐟 trout swim"
    answer = client.post("/explain", json={"document": {"text": text}, "label": "fish"}).json()
    words = {answer["text"][span["start"] : span["end"]] for span in answer["spans"]}
    assert "trout" in words
    assert answer["text"] == text
    assert answer["probability"] > 0


def test_explaining_an_unknown_concept_is_not_found(client):
    answer = client.post("/explain", json={"document": TROUT, "label": "whale"})
    assert answer.status_code == 404


def test_a_text_in_another_language_comes_with_a_warning(client):
    swedish = "Det har alltid varit många fiskar här, och de är också viktiga nu. trout"
    results = suggest(client, documents=[TROUT, {"text": swedish}])["results"]
    assert results[0]["warnings"] == []
    (warning,) = results[1]["warnings"]
    assert "seems to be Swedish; this run was trained on English documents" in warning
    answer = client.post("/explain", json={"document": {"text": swedish}, "label": "fish"})
    assert answer.json()["warnings"] == [warning]


def test_names_are_given_in_a_language_by_code_or_name(client):
    for language in ("de", "German", "Deutsch"):
        found = suggest(client, documents=[TROUT], limit=1, language=language)["results"][0]
        assert found["suggestions"][0]["name"] == "Fische"
        body = {"document": TROUT, "label": "fish", "language": language}
        assert client.post("/explain", json=body).json()["name"] == "Fische"
        concept = client.get("/ontology/concept", params={"label": "fish", "language": language})
        assert concept.json()["name"] == "Fische"


def test_runs_tell_their_languages(client):
    (run,) = client.get("/runs").json()["runs"]
    assert run["document_languages"] == ["English"]
    assert run["language_names"] == {"de": "German", "en": "English"}
