"""Annif's REST, and its own client against a real server."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ontodex import __version__
from ontodex.runs.run import load

V1 = "/v1/projects/small"


def test_what_answers_and_which_projects_there_are(client):
    for path in ("/v1", "/v1/"):
        assert client.get(path).json() == {"title": "ontodex", "version": __version__}
    (project,) = client.get("/v1/projects").json()["projects"]
    assert client.get(V1).json() == project
    assert project["project_id"] == "small"
    assert project["backend"] == {"backend_id": "knn"}
    assert project["is_trained"] is True
    (vocab,) = client.get("/v1/vocabs").json()["vocabs"]
    assert (vocab["size"], vocab["languages"], vocab["loaded"]) == (6, ["de", "en"], True)


def test_a_form_is_answered_with_uris_and_scores(client, run_folder):
    form = {"text": "trout in the stream", "limit": "1", "threshold": "0.1", "language": "de"}
    (found,) = client.post(f"{V1}/suggest", data=form).json()["results"]
    (expected,) = load(run_folder).suggest("trout in the stream", limit=1)
    assert found["score"] == pytest.approx(expected.probability, abs=1e-6)
    assert (found["uri"], found["label"], found["notation"]) == ("fish", "Fische", "12")


def test_a_title_in_the_metadata_is_read(client):
    form = {"text": "", "metadata_title": "oaks of the forest"}
    (found,) = client.post(f"{V1}/suggest", data=form).json()["results"]
    assert found["uri"] == "oak"


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({}, 422),
        ({"text": "x", "limit": "none"}, 422),
        ({"text": "x", "threshold": "2"}, 422),
        ({"text": "x", "limit": "5000"}, 200),
    ],
)
def test_wrong_forms_are_problems(client, form, status):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post(f"{V1}/suggest", data=form, headers=headers)
    assert answer.status_code == status
    assert client.post(f"{V1}/suggest", json=form).status_code == 415


def test_a_batch_keeps_ids_and_order(client):
    documents = [{"text": "old oaks", "document_id": "b"}, {"text": "trout swim"}]
    answer = client.post(f"{V1}/suggest-batch?limit=1", json={"documents": documents}).json()
    assert [(one["document_id"], one["results"][0]["uri"]) for one in answer] == [
        ("b", "oak"),
        (None, "fish"),
    ]
    many = {"documents": documents * 17}
    assert client.post(f"{V1}/suggest-batch", json=many).status_code == 422
    assert client.post(f"{V1}/suggest-batch", json={"documents": []}).json() == []


def test_what_is_learned_is_kept_as_decided(client):
    learned = [{"text": "a newt", "subjects": [{"uri": "newt", "label": "Newt"}, {"uri": "new"}]}]
    assert client.post(f"{V1}/learn", json=learned).status_code == 204
    document = client.get("/documents/1").json()
    assert document["state"] == "done"
    assert [v["label"] for v in document["verdicts"]] == ["newt"]


def test_languages_are_distinguished(client):
    text = "The quick brown fox jumps over the lazy dog and this is all of it."
    answer = client.post("/v1/detect-language", json={"text": text, "languages": ["en", "de"]})
    assert answer.json()["results"][0]["language"] == "en"
    for languages in ([], ["en"] * 6, ["klingon"]):
        body = {"text": text, "languages": languages}
        assert client.post("/v1/detect-language", json=body).status_code in (400, 422)


def test_subjects_that_are_no_concepts_stay_in_the_metadata(client):
    subjects = [{"uri": "fish"}, {"uri": "no> .\n<such"}, {"uri": "fish"}]
    body = [{"text": "trout", "metadata": {"year": 1978}, "subjects": subjects}]
    assert client.post(f"{V1}/learn", json=body).status_code == 204
    found = client.get("/documents/1").json()
    assert [(one["label"], one["verdict"]) for one in found["verdicts"]] == [("fish", "add")]
    assert found["metadata"] == {"year": 1978, "unmatched_labels": ["no> .\n<such"]}


def test_many_subjects_are_written_with_few_statements(client):
    database = client.app._app.state.service.database
    statements = []

    @sa.event.listens_for(database._engine, "before_cursor_execute")
    def count(connection, cursor, statement, *rest):
        if "decisions" in statement:
            statements.append(statement)

    body = [{"text": f"trout {i}", "subjects": [{"uri": "fish"}]} for i in range(300)]
    assert client.post(f"{V1}/learn", json=body).status_code == 204
    assert database.count_decisions() == 300
    assert len(statements) < 10, "the lock of the database would be held for long"


@pytest.mark.slow
def test_the_client_of_annif_works_unchanged(launch):
    annif_client = pytest.importorskip("annif_client")
    server = launch()
    client = annif_client.AnnifClient(api_base=server.address + "/v1/")
    assert client.api_info["title"] == "ontodex"
    assert [project["project_id"] for project in client.projects] == ["small"]
    assert client.get_project("small")["name"] == "knn (small)"
    with pytest.raises(ValueError, match="no run 'none'"):
        client.get_project("none")
    assert client.suggest("small", "trout swim", limit=1)[0]["uri"] == "fish"
    documents = [{"text": "oaks", "document_id": "1"}, {"text": "trout", "document_id": "2"}]
    batch = client.suggest_batch("small", documents, limit=2, threshold=0.01)
    assert [one["results"][0]["label"] for one in batch] == ["Oak", "Fish"]
    learned = [{"text": "a newt", "subjects": [{"uri": "newt", "label": "Newt"}]}]
    assert client.learn("small", learned).status_code == 204
    languages = client.detect_language("this is an English text", ["en", "fi"])
    assert languages["results"][0]["language"] == "en"
