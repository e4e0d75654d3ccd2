"""Documents, decisions and undos in the database."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from ontodex.errors import ConfigError
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import ConflictError, NewDecision, UnknownRowError
from ontodex.types import Doc

DOC = Doc("a", {"title": "trout", "body": "ünïcode"}, ("word",), (), {"year": 1978})


@pytest.fixture
def database(tmp_path):
    opened = Database.open(str(tmp_path / "decisions.sqlite"))
    yield opened
    opened.close()


def test_documents_are_read_as_they_were_written(database):
    (number,) = database.add_documents([DOC], batch="b", user="ada")
    row = database.get_document(number)
    assert (row["fields"], row["keywords"], row["metadata"]) == (
        {"title": "trout", "body": "ünïcode"},
        ["word"],
        {"year": 1978},
    )


def test_many_threads_write_and_nothing_is_lost(database):
    (number,) = database.add_documents([DOC], batch="b", user="ada")

    def write(i: int) -> int:
        return database.write_decisions([NewDecision(number, f"l{i}", "accept")], user=f"w{i}")[0][
            "id"
        ]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(write, range(80)))
    assert len(set(ids)) == 80
    assert database.count_decisions() == 80
    assert len(database.find_verdicts([number])[number]) == 80


def test_numbers_are_never_used_twice(database, tmp_path):
    first = database.add_documents([DOC, DOC], batch="b", user="ada")
    with sqlite3.connect(tmp_path / "decisions.sqlite") as connection:
        connection.execute("DELETE FROM documents WHERE number = 2")
    assert database.add_documents([DOC], batch="b", user="ada") == [first[-1] + 1]


def test_a_missing_row_is_an_error(database):
    with pytest.raises(UnknownRowError, match="no document 7"):
        database.get_document(7)
    with pytest.raises(UnknownRowError, match="no document 7"):
        database.set_state(7, "done", user="ada")
    with pytest.raises(UnknownRowError, match="no decision 7"):
        database.undo_decision(7, user="ada")


def test_of_simultaneous_undos_one_succeeds(database):
    (number,) = database.add_documents([DOC], batch="b", user="ada")
    made = database.write_decisions([NewDecision(number, "l", "accept")], user="ada")[0]["id"]

    def undo(_: int) -> bool:
        try:
            database.undo_decision(made, user="ada")
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(undo, range(8))) == 1


def test_decisions_move_to_the_successor_of_their_label_once(database):
    """Those of another vocabulary, which may have the same ids, stay."""
    own, other = (database.projects.open(vocabulary, "name") for vocabulary in ("a", "b"))
    (number,) = database.add_documents([DOC], batch="b", user="ada", project=own)
    (foreign,) = database.add_documents([DOC], batch="b", user="ada", project=other)
    new = [NewDecision(number, "tv", "accept"), NewDecision(number, "oak", "reject")]
    new += [NewDecision(foreign, "tv", "accept"), NewDecision(foreign, "oak", "accept")]
    database.write_decisions(new, user="ada")
    (wrong,) = database.write_decisions([NewDecision(number, "telly", "accept")], user="bob")
    database.undo_decision(wrong["id"], user="bob")
    successors = {"tv": "television", "telly": "television"}
    assert database.replace_labels(successors, project=own) == 1, "what was undone stays undone"
    assert database.replace_labels(successors, project=own) == 0
    verdicts = database.find_verdicts([number, foreign])
    found = [(v["label"], v["verdict"], v["user"]) for v in verdicts[number]]
    assert found == [("oak", "reject", "ada"), ("television", "accept", "ada")]
    assert [v["label"] for v in verdicts[foreign]] == ["tv", "oak"]
    assert database.count_decisions() == 6, "the log keeps the old ones"
    assert database.count_labels({"oak", "tv"}, project=own) == 1


def test_opening_again_finds_everything(tmp_path):
    where = str(tmp_path / "d.sqlite")
    first = Database.open(where)
    numbers = first.add_documents([DOC], batch="b", user="ada")
    first.close()
    second = Database.open(where)
    assert second.id == first.id
    assert second.get_document(numbers[0])["id"] == "a"
    second.close()


def test_a_database_of_another_format_is_refused(tmp_path):
    where = str(tmp_path / "d.sqlite")
    opened = Database.open(where)
    with opened._begin_write() as connection:
        connection.execute(sa.text("UPDATE about SET value = '99' WHERE key = 'format'"))
    opened.close()
    with pytest.raises(ConfigError, match="has format 99"):
        Database.open(where)


def test_a_database_that_fails_is_503_and_not_ready(client):
    service = client.app._service
    service.database._engine = sa.create_engine("sqlite:////no/such/folder/d")
    answer = client.post("/documents", json={"documents": [{"text": "trout"}]})
    assert (answer.status_code, answer.json()["status"]) == (503, 503)
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200
