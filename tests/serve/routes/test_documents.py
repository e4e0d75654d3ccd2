"""The queue of documents over HTTP."""

from __future__ import annotations

import json

import pytest


def test_the_queue_stores_documents_unchanged(queue):
    found = queue.get("/documents/1").json()
    assert found["fields"] == {"title": "A trout", "abstract": "swims in the stream"}
    assert found["text"] == "A trout\nswims in the stream"
    assert (found["state"], found["batch"], found["added_by"]) == ("open", "may", "local")
    listed = queue.get("/documents").json()
    assert [d["title"] for d in listed["documents"]] == ["A trout", "old oaks in the forest"]
    assert (listed["n_open"], listed["n_done"], listed["batches"]) == (2, 0, ["may"])
    assert queue.get("/documents", params={"after": 1}).json()["documents"][0]["number"] == 2
    assert queue.get("/documents", params={"batch": "june"}).json()["documents"] == []


def test_next_goes_through_the_open_documents_and_starts_again(queue):
    def next_after(number):
        document = queue.get("/documents/next", params={"after": number}).json()["document"]
        return document and document["number"]

    assert [next_after(0), next_after(1), next_after(2)] == [1, 2, 1]
    assert queue.put("/documents/1/state", json={"state": "done"}).json()["done_by"] == "local"
    assert [next_after(0), next_after(2)] == [2, 2]
    queue.put("/documents/2/state", json={"state": "done"})
    assert next_after(0) is None
    assert queue.put("/documents/1/state", json={"state": "open"}).json()["done_at"] is None
    assert queue.get("/documents/next").json()["n_open"] == 1


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"title": " On\n trout "}, "On trout"),
        ({"title": " ", "text": "No title"}, "No title"),
        ({"text": "stream " * 50}, "stream " * 16 + "…"),
        ({"text": "水" * 300}, "水" * 118 + " …"),
    ],
)
def test_the_list_shows_the_title_or_the_beginning_of_the_text(client, fields, shown):
    client.post("/documents", json={"documents": [fields]})
    assert client.get("/documents").json()["documents"][0]["title"] == shown


def test_a_document_without_words_is_refused_and_none_of_its_request_is_queued(client):
    body = {"documents": [{"text": "trout"}, {"text": " \n"}]}
    answer = client.post("/documents", json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["location"] == "body.documents.1"
    assert "no text" in error["message"]
    assert client.get("/documents").json()["documents"] == []
    title_only = {"documents": [{"title": "Trout", "text": ""}]}
    assert client.post("/documents", json=title_only).status_code == 201


def test_previous_is_the_document_before_open_or_done(queue):
    def before(**query):
        document = queue.get("/documents/previous", params=query).json()["document"]
        return document and document["number"]

    queue.put("/documents/1/state", json={"state": "done"})
    assert [before(before=2), before(before=1), before()] == [1, None, 2]
    assert before(batch="june") is None


def test_a_queued_document_is_explained(queue):
    answer = queue.post("/documents/1/explain", json={"label": "fish"}).json()
    assert "trout" in {answer["text"][s["start"] : s["end"]] for s in answer["spans"]}


def test_hostile_texts_are_returned_unchanged(client):
    texts = ["<script>alert(1)</script>", "\u2028 \ufeff \U0001f41f", "'; DROP TABLE documents; --"]
    body = {"documents": [{"text": text, "id": text} for text in texts], "batch": texts[2]}
    numbers = client.post("/documents", json=body).json()["numbers"]
    found = [client.get(f"/documents/{number}").json() for number in numbers]
    assert [(d["text"], d["id"]) for d in found] == [(t, t) for t in texts]
    assert json.loads(client.get("/documents").text)["batches"] == [texts[2]]


def nest(depth):
    value = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [17, 100, 256, 300, 900])
def test_metadata_nested_too_deep_is_refused_and_blocks_nothing(queue, depth):
    body = {"documents": [{"text": "trout", "metadata": nest(depth)}]}
    answer = queue.post("/documents", json=body)
    assert answer.status_code == 422
    assert "nested deeper" in answer.text
    assert queue.get("/documents/next?after=2").json()["document"]["number"] == 1


def test_the_largest_metadata_that_is_accepted_can_be_fetched(queue):
    large = {"deep": nest(15), "many": list(range(9000)), "long": "x" * 900_000, "number": 9**400}
    body = {"documents": [{"text": "trout", "metadata": large}]}
    answer = queue.post("/documents", json=body)
    assert answer.status_code == 201
    number = answer.json()["numbers"][0]
    assert queue.get(f"/documents/{number}").json()["metadata"] == large
    assert queue.put(f"/documents/{number}/state", json={"state": "done"}).status_code == 200


def test_a_deleted_document_is_in_no_list_and_can_be_restored(queue, decide):
    decide(queue, 1, "fish")
    assert queue.delete("/documents/1").status_code == 204
    listed = queue.get("/documents").json()
    assert [each["number"] for each in listed["documents"]] == [2]
    assert (listed["n_open"], listed["batch_counts"][0]["n_open"]) == (1, 1)
    assert queue.get("/documents/1").status_code == 404
    assert queue.delete("/documents/1").status_code == 404
    assert queue.get("/export").text == ""
    assert queue.get("/decisions").json()["decisions"] == []
    assert queue.put("/documents/1/state", json={"state": "open"}).status_code == 200
    assert queue.get("/documents/1").json()["verdicts"][0]["label"] == "fish"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("TROUT", [1]), ("o1", [2]), ("may", [1, 2]), ("ÄÄLTÖ", [3]), ("50%", []), ("_", []), ("", 3)],
)
def test_the_queue_is_searched_in_texts_ids_and_batches(queue, text, numbers):
    queue.post("/documents", json={"documents": [{"text": "äältö 50 %"}], "batch": "other"})
    found = queue.get("/documents", params={"q": text}).json()
    shown = [each["number"] for each in found["documents"]]
    assert shown == numbers if text else len(shown) == numbers
    assert found["n_found"] == (len(shown) if text else None)


def test_batches_are_counted(queue):
    queue.post("/documents", json={"documents": [{"text": "x"}], "batch": "june"})
    queue.put("/documents/2/state", json={"state": "done"})
    assert queue.get("/documents").json()["batch_counts"] == [
        {"batch": "june", "n_open": 1, "n_done": 0},
        {"batch": "may", "n_open": 1, "n_done": 1},
    ]


def test_open_documents_are_predicted_ahead_of_time(queue):
    by_uncertainty = {"order": "uncertainty"}
    before = queue.get("/documents", params=by_uncertainty).json()["documents"]
    assert [each["corrections"] for each in before] == [None, None]
    first = queue.post("/documents/predict", json={"limit": 1}).json()
    assert first == {"run": "small", "n_predicted": 1, "n_left": 1}
    assert queue.post("/documents/predict", json={}).json()["n_left"] == 0
    assert queue.post("/documents/predict", json={}).json()["n_predicted"] == 0
    shown = queue.get("/documents", params=by_uncertainty).json()["documents"]
    for each in shown:
        made = queue.post(f"/documents/{each['number']}/suggest", json={"limit": 100}).json()
        wrong = [
            1 - one["probability"] if one["in_label_set"] else one["probability"]
            for one in made["suggestions"]
        ]
        assert each["corrections"] == pytest.approx(sum(wrong), abs=1e-4)


def test_next_walks_the_documents_by_falling_uncertainty(queue, served):
    queue.post("/documents", json={"documents": [{"text": "x"}, {"text": "y"}]})
    database = queue.app._app.state.service.database
    stored = {"ranked": [], "chosen": []}
    for number, corrections in ((1, 0.5), (2, 2.0), (4, 0.5)):
        database.store_suggestions(number, "small", served.state_key, stored, corrections)
    walked, after = [], 0
    for _ in range(5):
        query = {"order": "uncertainty", "after": after}
        after = queue.get("/documents/next", params=query).json()["document"]["number"]
        walked.append(after)
    assert walked == [2, 1, 4, 3, 2], "one without a prediction is last; then from the start"
