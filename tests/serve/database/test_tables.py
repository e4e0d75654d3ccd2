"""Format 2 of the decisions database: stored names do not change with names in code."""

from __future__ import annotations

import sqlite3

import pytest

from ontodex.errors import ConfigError
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import ConflictError, NewDecision
from ontodex.types import Doc

COLUMNS = {
    "about": "key value",
    "documents": "number id fields keywords metadata batch state added added_by done done_by"
    " project",
    "suggestions": "document run key made answer corrections",
    "decisions": "id document label verdict who when run probability request",
    "undos": "decision who when",
    "imports": "decision",
}


@pytest.fixture
def database(tmp_path):
    database = Database.open(str(tmp_path / "decisions.sqlite"))
    yield database
    database.close()


def test_the_stored_columns_are_those_of_format_2(database, tmp_path):
    with sqlite3.connect(tmp_path / "decisions.sqlite") as connection:
        found = {
            table: " ".join(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
            for table in COLUMNS
        }
        (version,) = connection.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
    assert found == COLUMNS
    assert version == "2"


def test_rows_have_the_names_of_the_code(database):
    (number,) = database.add_documents([Doc("d", {"text": "x"})], batch="b", user="ada")
    document = database.get_document(number)
    assert (document["added_by"], document["done_at"]) == ("ada", None)
    assert document["added_at"].endswith("Z")
    new = NewDecision(number, "fish", "accept", request_id="r1")
    (decision,) = database.write_decisions([new], user="ada")
    assert (decision["user"], decision["request_id"], decision["undone"]) == ("ada", "r1", False)
    assert decision["time"] >= document["added_at"]


def test_a_decision_has_the_probability_of_the_stored_suggestion(database):
    (number,) = database.add_documents([Doc("d", {"text": "x"})], batch="b", user="ada")
    stored = {"ranked": [["fish", 0.25]], "chosen": []}
    database.store_suggestions(number, "small", "key", stored)
    new = [NewDecision(number, label, "accept", "small") for label in ("fish", "oak")]
    rows = database.write_decisions(new, user="ada")
    assert [row["probability"] for row in rows] == [0.25, None]
    assert database.get_suggestions(number, "small", "key") == stored
    assert database.get_suggestions(number, "small", "other state") is None


def test_a_request_id_belongs_to_one_decision(database):
    (number,) = database.add_documents([Doc("d", {"text": "x"})], batch="b", user="ada")
    first = NewDecision(number, "fish", "accept", request_id="r1")
    database.write_decisions([first], user="ada")
    with pytest.raises(ConflictError, match="'r1' belongs to another decision"):
        database.write_decisions([first], user="bob")


def test_labels_of_new_documents_become_imported_decisions(database):
    docs = [Doc("a", {"text": "x"}, labels=("fish", "oak")), Doc("b", {"text": "y"})]
    first, second = database.add_documents(docs, batch="b", user="ada", run="small")
    verdicts = database.find_verdicts([first, second])
    assert [
        (row["label"], row["verdict"], row["user"], row["run"], row["imported"])
        for row in verdicts[first]
    ] == [("fish", "add", "ada", "small", True), ("oak", "add", "ada", "small", True)]
    assert verdicts[second] == []
    (later,) = database.write_decisions([NewDecision(first, "fish", "reject")], user="ben")
    assert later["imported"] is False
    assert database.undo_decision(verdicts[first][1]["id"], user="ben")["imported"] is True


def test_a_database_of_before_gets_the_new_table_and_keeps_its_rows(tmp_path):
    path = tmp_path / "decisions.sqlite"
    database = Database.open(str(path))
    (number,) = database.add_documents([Doc("d", {"text": "x"})], batch="b", user="ada")
    database.write_decisions([NewDecision(number, "fish", "accept")], user="ada")
    database.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE imports")  # as version 0.2 made it
    database = Database.open(str(path))
    (row,) = database.list_decisions(limit=10)
    assert (row["label"], row["imported"]) == ("fish", False)
    database.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE documents (title TEXT)",
        "CREATE VIEW decisions AS SELECT 1 AS id",
        "CREATE TABLE about (version TEXT)",
    ],
)
def test_the_database_of_another_program_is_refused_and_left_alone(statement, tmp_path):
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute(statement)
    with pytest.raises(ConfigError, match="belongs to another program: it has no column"):
        Database.open(str(tmp_path / "other.sqlite"))
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        found = connection.execute("SELECT sql FROM sqlite_master").fetchall()
    assert found == [(statement,)]
