"""Lone surrogates, which JSON can write and UTF-8 cannot: refused in every request, and replaced
where an older service has stored them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ontodex.runs.run import load
from ontodex.runs.vocabulary import get_vocabulary_key
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import NewDecision
from ontodex.serve.learn import learn
from ontodex.types import Doc

HALF = "tro\ud800ut"
REPAIRED = "tro\ufffdut"
V1 = "/v1/projects/small"
DECISION = {"document": 1, "label": "fish", "verdict": "accept"}


def send(client, path: str, body: object, method: str = "POST"):
    """The body as JSON with escapes, as a client in another language writes it."""
    headers = {"content-type": "application/json"}
    return client.request(method, path, content=json.dumps(body), headers=headers)


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/suggest", {"documents": [{"text": HALF}]}, "body.documents.0.text"),
        ("/suggest", {"documents": [{"text": "x", "id": HALF}]}, "body.documents.0.id"),
        (
            "/suggest",
            {"documents": [{"text": "x", "keywords": [HALF]}]},
            "body.documents.0.keywords.0",
        ),
        ("/suggest", {"documents": [{"text": "x"}], "include": [HALF]}, "body.include.0"),
        ("/suggest", {"documents": [{"text": "x"}], "language": HALF}, "body.language"),
        ("/suggest", {"documents": [{"text": "x"}], "run": HALF}, "body.run"),
        ("/explain", {"document": {"text": HALF}, "label": "fish"}, "body.document.text"),
        ("/explain", {"document": {"text": "x"}, "label": HALF}, "body.label"),
        ("/documents", {"documents": [{"text": HALF}]}, "body.documents.0.text"),
        ("/documents", {"documents": [{"title": HALF}]}, "body.documents.0.title"),
        ("/documents", {"documents": [{"text": "x", "id": HALF}]}, "body.documents.0.id"),
        ("/documents", {"documents": [{"fields": {"a": HALF}}]}, "body.documents.0.fields.a"),
        (
            "/documents",
            {"documents": [{"text": "x", "metadata": {"a": [HALF]}}]},
            "body.documents.0.metadata",
        ),
        ("/documents", {"documents": [{"text": "x"}], "batch": HALF}, "body.batch"),
        ("/documents/1/suggest", {"exclude": [HALF]}, "body.exclude.0"),
        ("/documents/1/explain", {"label": HALF}, "body.label"),
        ("/decisions", {"decisions": [DECISION | {"label": HALF}]}, "body.decisions.0.label"),
        ("/decisions", {"decisions": [DECISION | {"run": HALF}]}, "body.decisions.0.run"),
        (
            "/decisions",
            {"decisions": [DECISION | {"request_id": HALF}]},
            "body.decisions.0.request_id",
        ),
        ("/login", {"key": HALF}, "body.key"),
        (f"{V1}/suggest-batch", {"documents": [{"text": HALF}]}, "body.documents.0.text"),
        (
            f"{V1}/suggest-batch",
            {"documents": [{"text": "x", "document_id": HALF}]},
            "body.documents.0.document_id",
        ),
        (f"{V1}/learn", [{"text": HALF, "subjects": [{"uri": "fish"}]}], "body.0.text"),
        (f"{V1}/learn", [{"text": "x", "subjects": [{"uri": HALF}]}], "body.0.subjects.0.uri"),
        (
            f"{V1}/learn",
            [{"text": "x", "metadata": {HALF: "x"}, "subjects": []}],
            "body.0.metadata",
        ),
        ("/v1/detect-language", {"text": HALF, "languages": ["en"]}, "body.text"),
        ("/v1/detect-language", {"text": "x", "languages": [HALF]}, "body.languages.0"),
    ],
)
def test_half_a_surrogate_pair_is_refused_and_named(client, path, body, where):
    assert client.post("/documents", json={"documents": [{"text": "trout"}]}).status_code == 201
    answer = send(client, path, body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    (error,) = answer.json()["errors"]
    assert error["location"] == where
    assert "half a surrogate pair ('\\ud800') in text" in error["message"]
    assert client.get("/status").json()["documents"] == {"n_open": 1, "n_done": 0}


def test_half_a_surrogate_pair_in_the_name_of_a_field_is_refused(client):
    answer = send(client, "/documents", {"documents": [{"fields": {HALF: "x"}}]})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert "half a surrogate pair" in error["message"]
    assert error["location"].encode().endswith(b".[key]"), "the answer itself is UTF-8"
    assert send(client, "/documents", {"documents": [{"text": "x"}], HALF: 1}).status_code == 422


def test_a_body_that_spells_the_half_in_bytes_is_refused_too(client):
    raw = json.dumps({"documents": [{"text": HALF}]}, ensure_ascii=False)
    headers = {"content-type": "application/json"}
    answer = client.post("/suggest", content=raw.encode("utf-8", "surrogatepass"), headers=headers)
    assert answer.status_code in (400, 422)


def test_a_whole_surrogate_pair_is_a_character(client):
    answer = send(client, "/documents", {"documents": [{"text": "🐟 trout", "id": "🐟"}]})
    assert answer.status_code == 201
    assert client.get("/documents/1").json()["text"] == "🐟 trout"


def test_queries_and_forms_cannot_spell_half_a_pair(client):
    half = "%ED%A0%80"
    for path in (
        f"/ontology/search?q={half}",
        f"/documents?batch={half}",
        f"/decisions?user={half}",
    ):
        assert client.get(path).status_code == 200, path
    assert client.get(f"/ontology/concept?label={half}").status_code == 404
    assert client.get(f"/runs/{half}").status_code == 404
    headers = {"content-type": "application/x-www-form-urlencoded"}
    for field in (f"text=trout{half}", f"text=trout&metadata_title={half}"):
        answer = client.post(f"{V1}/suggest", content=field, headers=headers)
        assert answer.status_code == 200, field


def test_a_form_whose_charset_spells_half_a_pair_is_refused(client):
    answer = client.post(
        "/documents/upload",
        headers={"content-type": "multipart/form-data; boundary=b; charset=unicode_escape"},
        content=(
            b'--b\r\nContent-Disposition: form-data; name="batch"\r\n\r\n\\ud800\r\n'
            b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
            b"trout\r\n"
            b"--b--\r\n"
        ),
    )
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["location"] == "body.batch"


def test_metadata_of_a_form_is_checked_as_that_of_a_body(client):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post(f"{V1}/suggest", content="text=x&metadata_title=a%00b", headers=headers)
    assert answer.status_code == 422
    assert "NUL" in answer.json()["errors"][0]["message"]


def test_a_backslash_in_metadata_is_no_nul(client):
    documents = [{"text": "x", "metadata": {"pattern": "\\u0000"}}]
    assert send(client, "/documents", {"documents": documents}).status_code == 201


def strings(schema: object, components: dict) -> Iterator[dict]:
    """The descriptions of strings in that of a body."""
    if isinstance(schema, list):
        for part in schema:
            yield from strings(part, components)
    elif isinstance(schema, dict):
        if name := schema.get("$ref"):
            yield from strings(components[name.rpartition("/")[2]], components)
        if schema.get("type") == "string":
            yield schema
        for part in schema.values():
            yield from strings(part, components)


def test_every_text_of_every_body_is_of_the_checked_type(client):
    described = client.get("/openapi.json").json()
    bodies = [
        (path, schema["schema"])
        for path, operations in described["paths"].items()
        for operation in operations.values()
        for kind, schema in operation.get("requestBody", {"content": {}})["content"].items()
        if kind != "application/x-www-form-urlencoded"  # which cannot spell half a pair
    ]
    assert len(bodies) >= 10
    closed = {"pattern", "enum", "const", "contentMediaType"}
    for path, body in bodies:
        found = list(strings(body, described["components"]["schemas"]))
        assert found, path
        assert all(closed & string.keys() for string in found), (path, found)


def damage(where: Path) -> None:
    """Store lone surrogates in document 1, as services before this check did."""
    changed = (
        json.dumps({"text": f"{HALF} in the stream 🐟", HALF: "x"}),
        json.dumps([HALF]),
        json.dumps({"note": {HALF: [HALF]}}),
    )
    assert "\\ud800" in changed[0]
    with sqlite3.connect(where) as connection:
        connection.execute(
            "UPDATE documents SET fields = ?, keywords = ?, metadata = ? WHERE number = 1", changed
        )


@pytest.fixture
def damaged(client, tmp_path):
    """A service whose first document of three is damaged; all of them are decided."""
    documents = [{"text": "trout"}, {"text": "old oaks"}, {"text": "trout"}]
    client.post("/documents", json={"documents": documents})
    decisions = [DECISION | {"document": number} for number in (1, 2, 3)]
    assert client.post("/decisions", json={"decisions": decisions}).status_code == 201
    damage(tmp_path / "decisions.sqlite")
    return client


def test_a_damaged_document_is_shown_with_a_replacement_character(damaged):
    document = damaged.get("/documents/1").json()
    assert document["fields"] == {"text": f"{REPAIRED} in the stream 🐟", REPAIRED: "x"}
    assert document["keywords"] == [REPAIRED]
    assert document["metadata"] == {"note": {REPAIRED: [REPAIRED]}}
    assert damaged.get("/documents/next").json()["document"] == {
        key: value for key, value in document.items() if key != "verdicts"
    }
    titles = [row["title"] for row in damaged.get("/documents").json()["documents"]]
    assert len(titles) == 3
    assert titles[0].startswith(REPAIRED)


def test_a_damaged_document_can_be_worked_on(damaged):
    assert send(damaged, "/documents/1/suggest", {}).status_code == 200
    explained = send(damaged, "/documents/1/explain", {"label": "fish"})
    assert explained.status_code == 200
    assert REPAIRED in explained.json()["text"]
    assert send(damaged, "/documents/1/state", {"state": "done"}, "PUT").status_code == 200


@pytest.mark.parametrize("format", ["jsonl", "csv", "annif-tsv", "skos", "marc"])
def test_an_export_goes_on_after_a_damaged_document(damaged, format):
    text = damaged.get(f"/export?format={format}").text
    assert text.count("fish") >= 3
    if format == "jsonl":
        first, *others = map(json.loads, text.splitlines())
        assert first["fields"]["text"].startswith(REPAIRED)
        assert [other["id"] for other in others] == ["2", "3"]


def test_a_damaged_document_is_learned_from(run_folder, tmp_path):
    folder = Path(shutil.copytree(run_folder, tmp_path / "run"))
    where = tmp_path / "decisions.sqlite"
    database = Database.open(str(where))
    docs = [Doc(f"n{i}", {"text": f"a newt in wet moss {i}"}) for i in range(10)]
    run = load(folder)
    project = database.projects.open(get_vocabulary_key(run.about, run.labels), "name")
    for number in database.add_documents(docs, batch="b", user="ada", project=project):
        database.write_decisions([NewDecision(number, "newt", "accept")], user="ada")
        database.set_state(number, "done", user="ada")
    damage(where)
    result = learn(folder, database)
    database.close()
    assert (result.n_documents, result.n_stored) == (10, 10)
