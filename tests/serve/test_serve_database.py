"""The database by itself: what the disk is asked for, and what is said when it cannot be had."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from ontodex.errors import ConfigError
from ontodex.serve.database import ConflictError, Database, Judgement, UnknownRowError
from ontodex.types import Doc

DOC = Doc("a", {"title": "trout", "body": "ünïcode"}, ("word",), (), {"year": 1978})


@pytest.fixture
def database(tmp_path):
    opened = Database.open(str(tmp_path / "decisions.sqlite"))
    yield opened
    opened.close()


def test_a_commit_waits_for_the_disk(database):
    with database._reading() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_documents_come_back_as_they_went(database):
    (number,) = database.add_documents([DOC], batch="b", who="ada")
    row = database.document(number)
    assert (row["fields"], row["keywords"], row["metadata"]) == (
        {"title": "trout", "body": "ünïcode"},
        ["word"],
        {"year": 1978},
    )


def test_many_threads_write_and_nothing_is_lost(database):
    (number,) = database.add_documents([DOC], batch="b", who="ada")

    def write(i: int) -> int:
        return database.decide([Judgement(number, f"l{i}", "accept")], who=f"w{i}")[0]["id"]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(write, range(80)))
    assert len(set(ids)) == 80
    assert database.n_decisions() == 80
    assert len(database.verdicts([number])[number]) == 80


def test_numbers_are_never_used_twice(database, tmp_path):
    first = database.add_documents([DOC, DOC], batch="b", who="ada")
    with sqlite3.connect(tmp_path / "decisions.sqlite") as connection:
        connection.execute("DELETE FROM documents WHERE number = 2")
    assert database.add_documents([DOC], batch="b", who="ada") == [first[-1] + 1]


def test_what_is_not_there_is_said(database):
    with pytest.raises(UnknownRowError, match="no document 7"):
        database.document(7)
    with pytest.raises(UnknownRowError, match="no document 7"):
        database.set_state(7, "done", who="ada")
    with pytest.raises(UnknownRowError, match="no decision 7"):
        database.undo(7, who="ada")


def test_two_undos_at_once_are_one(database):
    (number,) = database.add_documents([DOC], batch="b", who="ada")
    made = database.decide([Judgement(number, "l", "accept")], who="ada")[0]["id"]

    def undo(_: int) -> bool:
        try:
            database.undo(made, who="ada")
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(undo, range(8))) == 1


def test_opening_again_finds_everything(tmp_path):
    where = str(tmp_path / "d.sqlite")
    first = Database.open(where)
    numbers = first.add_documents([DOC], batch="b", who="ada")
    first.close()
    second = Database.open(where)
    assert second.id == first.id
    assert second.document(numbers[0])["id"] == "a"
    second.close()


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("/no/such/folder/d.sqlite", "unable to open"),
        ("mongodb://u:secret@h/d", "not a file or a known URL"),
        ("postgresql://ada:secret@127.0.0.1:1/none", "cannot be opened"),
    ],
)
def test_a_database_that_cannot_be_opened_is_a_sentence_without_the_password(where, said):
    with pytest.raises(ConfigError, match=said) as caught:
        Database.open(where)
    assert "secret" not in str(caught.value)


def test_a_database_of_another_format_is_refused(tmp_path):
    where = str(tmp_path / "d.sqlite")
    opened = Database.open(where)
    with opened._writing() as connection:
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
