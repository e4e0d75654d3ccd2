"""Stored rows that cannot be shown: set aside, listed, and in nobody's way."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest

from ontodex.runs.run import load
from ontodex.runs.vocabulary import get_vocabulary_key
from ontodex.serve.database.database import Database
from ontodex.serve.database.stored_rows import DamagedRowError
from ontodex.serve.database.tables import NewDecision, QueueFilter
from ontodex.serve.learn import learn
from ontodex.types import Doc

DEEP = '{"a":' * 300 + "1" + "}" * 300
DAMAGES = {
    "metadata nested 300 deep": ("metadata", DEEP),
    "metadata that is no JSON": ("metadata", '{"a": '),
    "metadata that is a list": ("metadata", "[]"),
    "metadata with a long number": ("metadata", '{"a": ' + "9" * 5000 + "}"),
    "metadata of deep brackets": ("metadata", "[" * 100_000),
    "fields that are no texts": ("fields", '{"text": 1}'),
    "fields that are a list": ("fields", "[]"),
    "keywords that are an object": ("keywords", "{}"),
    "an id that is a blob": ("id", b"\xff\x00"),
    "a state that is not known": ("state", "weird"),
    "fields that are a number": ("fields", 3),
}


@pytest.fixture
def path(tmp_path):
    """A database of three documents, each with one decision."""
    path = tmp_path / "decisions.sqlite"
    database = Database.open(str(path))
    database.add_documents([Doc(f"d{i}", {"text": "trout"}) for i in range(3)], batch="b", user="u")
    database.write_decisions([NewDecision(i, "fish", "accept") for i in (1, 2, 3)], user="ada")
    database.close()
    return path


def damage(path, column, value, number=1, table="documents", key="number"):
    with sqlite3.connect(path) as connection:
        connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE {key} = ?', (value, number))
    connection.close()


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_document_is_in_nobodys_way(path, start, kind, caplog):
    damage(path, *DAMAGES[kind])
    client = start(database=str(path))
    found = client.get("/documents/next")
    assert (found.status_code, found.json()["document"]["number"]) == (200, 2)
    assert found.json()["n_open"] == 2
    assert client.get("/documents/previous?before=2").json()["document"] is None
    listed = client.get("/documents").json()
    assert [one["number"] for one in listed["documents"]] == [2, 3]
    assert listed["n_quarantined"] == 1
    for format_ in ("jsonl", "csv", "annif-tsv", "skos", "marc"):
        assert client.get(f"/export?format={format_}").status_code == 200
    assert len(client.get("/export").text.splitlines()) == 2
    assert client.get("/documents/1").status_code == 409
    assert client.put("/documents/1/state", json={"state": "done"}).status_code == 409
    assert client.post("/documents/1/suggest", json={}).status_code == 409
    wanted = {"document": 1, "label": "fish", "verdict": "accept"}
    assert client.post("/decisions", json={"decisions": [wanted]}).status_code == 409
    assert len(client.get("/decisions").json()["decisions"]) == 3


def test_a_damaged_document_is_reported_everywhere(path, start, caplog):
    damage(path, "metadata", DEEP)
    client = start(database=str(path))
    client.get("/documents/next")
    (listed,) = client.get("/quarantine").json()["documents"]
    assert listed["number"] == 1
    assert "metadata" in listed["reason"]
    assert "deeper than 200" in listed["reason"]
    assert client.get("/status").json()["n_quarantined"] == 1
    assert "ontodex_quarantined_documents 1\n" in client.get("/metrics").text
    assert sum("quarantined a document" in one.message for one in caplog.records) == 1
    assert "GET /quarantine" in client.get("/documents/1").json()["hint"]


def test_the_background_check_finds_damage_that_nobody_asked_for(path):
    damage(path, "metadata", DEEP, number=3)
    database = Database.open(str(path))
    database.queue.check_all(lambda: False)
    assert database.quarantine.n_documents == 1
    database.close()


def test_thousands_of_damaged_documents_do_not_block_the_next(tmp_path):
    path = tmp_path / "decisions.sqlite"
    database = Database.open(str(path))
    docs = [Doc(f"d{i}", {"text": "trout"}) for i in range(2001)]
    database.add_documents(docs, batch="b", user="u")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE documents SET metadata = '{' WHERE number <= 2000")
    connection.close()
    (found,) = database.queue.list_by_number(QueueFilter("open"), limit=1)
    assert found["number"] == 2001
    assert database.quarantine.n_documents == 2000
    database.close()


def test_a_repaired_document_comes_back_in_its_old_state(path):
    database = Database.open(str(path))
    database.set_state(1, "done", user="ada")
    damage(path, "metadata", "{")
    with pytest.raises(DamagedRowError):
        database.get_document(1)
    database.close()
    damage(path, "metadata", '{"year": 1978}')
    database = Database.open(str(path))
    assert database.get_document(1)["state"] == "done"
    assert database.quarantine.n_documents == 0
    database.close()


def test_values_of_older_versions_are_still_shown(path, start):
    old = {"deep": json.loads("[" * 190 + "]" * 190), "long": 10**3000}
    damage(path, "metadata", json.dumps(old)[:-1] + ', "nan": NaN}')
    client = start(database=str(path))
    found = client.get("/documents/1")
    assert found.status_code == 200
    assert found.json()["metadata"] == {**old, "nan": None}
    assert client.get("/documents/next").json()["document"]["number"] == 1


def test_bytes_that_are_not_utf_8_are_replaced(path, start):
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE documents SET id = CAST(X'61FF62' AS TEXT) WHERE number = 1")
    connection.close()
    client = start(database=str(path))
    assert client.get("/documents/next").json()["document"]["id"] == "a\ufffdb"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("verdict", "maybe"),
        ("label", b"\xff"),
        ("probability", "high"),
        ("when", b"5"),
        ("who", b""),
    ],
)
def test_a_damaged_decision_is_left_out(path, start, column, value):
    damage(path, column, value, table="decisions", key="id")
    client = start(database=str(path))
    assert [one["id"] for one in client.get("/decisions").json()["decisions"]] == [2, 3]
    assert [one["id"] for one in client.get("/decisions?limit=1").json()["decisions"]] == [2]
    assert client.get("/documents/1").json()["verdicts"] == []
    assert client.get("/export").status_code == 200
    assert client.post("/decisions/1/undo").status_code == 409
    assert [one["id"] for one in client.get("/quarantine").json()["decisions"]] == [1]


@pytest.mark.parametrize(
    "stored", ["{", "[]", "[" * 100_000, '{"ranked": 3, "chosen": []}', '{"ranked": [["x", 1]]}']
)
def test_a_damaged_prediction_is_made_again(path, start, stored):
    client = start(database=str(path))
    first = client.post("/documents/1/suggest", json={}).json()
    damage(path, "answer", stored, table="suggestions", key="document")
    wanted = {"document": 1, "label": "fish", "verdict": "accept", "run": "small"}
    assert client.post("/decisions", json={"decisions": [wanted]}).status_code == 201
    again = client.post("/documents/1/suggest", json={})
    assert again.status_code == 200
    assert again.json() == first


def test_learning_skips_a_damaged_document(path, run_folder, tmp_path, caplog):
    damage(path, "metadata", DEEP)
    copy = tmp_path / "run"
    shutil.copytree(run_folder, copy)
    database = Database.open(str(path))
    run = load(copy)
    project = database.projects.open(get_vocabulary_key(run.about, run.labels), "name")
    database.projects.adopt({"run": project})
    assert learn(copy, database).n_documents == 2
    assert "its decisions are not learned" in caplog.text
    database.close()
