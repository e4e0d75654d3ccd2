"""Projects: one for each vocabulary; databases of format 1 are divided among them."""

from __future__ import annotations

import sqlite3

import pytest

from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import ConflictError, NewDecision, QueueFilter, UnknownRowError
from ontodex.types import Doc

DOC = Doc("d", {"text": "x"})


@pytest.fixture
def database(tmp_path):
    database = Database.open(str(tmp_path / "decisions.sqlite"))
    yield database
    database.close()


def test_a_vocabulary_keeps_its_project(database):
    fish, roads = (database.projects.open(key, key) for key in ("fish", "roads"))
    assert fish != roads
    assert database.projects.open("fish", "another name") == fish
    database.add_documents([DOC, DOC], batch="b", user="ada", project=roads)
    found = {row["name"]: (row["n_open"], row["n_done"]) for row in database.projects.list_all()}
    assert found == {"fish": (0, 0), "roads": (2, 0)}
    assert database.queue.list_by_number(QueueFilter(project=fish), limit=9) == []


def test_a_newer_vocabulary_takes_over_a_project_but_not_one_in_use(database):
    old, new, used = (database.projects.open(key, key) for key in ("old", "new", "used"))
    database.add_documents([DOC], batch="b", user="ada", project=used)
    database.projects.replace_vocabulary(old, "new")
    assert database.projects.open("new", "") == old, "the empty project of the newer one is gone"
    with pytest.raises(ConflictError, match=f"project {used} has documents"):
        database.projects.replace_vocabulary(old, "used")
    with pytest.raises(UnknownRowError, match="no project 99"):
        database.projects.rename(99, "x")
    assert new not in [row["id"] for row in database.projects.list_all()]


def turn_back_to_format_1(path):
    with sqlite3.connect(path) as connection:
        connection.execute("DROP INDEX ix_documents_project")
        connection.execute("ALTER TABLE documents DROP COLUMN project")
        connection.execute("ALTER TABLE suggestions DROP COLUMN corrections")
        connection.execute("DROP TABLE projects")
        connection.execute("UPDATE about SET value = '1' WHERE key = 'format'")


def test_a_database_of_format_1_is_divided_by_the_runs_that_were_used(tmp_path):
    path = tmp_path / "old.sqlite"
    database = Database.open(str(path))
    fish, road, both, new = database.add_documents([DOC] * 4, batch="b", user="ada")
    made = [(fish, "trout", "f"), (road, "car", "r"), (both, "trout", "f"), (both, "newt", "f")]
    made.append((both, "car", "r"))
    database.write_decisions(
        [NewDecision(n, label, "accept", run) for n, label, run in made], user="ada"
    )
    database.close()
    turn_back_to_format_1(path)

    database = Database.open(str(path))
    fishes, roads = (database.projects.open(key, key) for key in ("fishes", "roads"))
    database.projects.adopt({"f": fishes, "r": roads})

    def read_queue(project):
        rows = database.queue.list_by_number(QueueFilter(project=project), limit=9)
        return {
            row["number"]: [
                v["label"] for v in database.find_verdicts([row["number"]])[row["number"]]
            ]
            for row in rows
        }

    assert read_queue(fishes) == {fish: ["trout"], both: ["trout", "newt"], new: []}
    copy = max(read_queue(roads))
    assert read_queue(roads) == {road: ["car"], copy: ["car"]}
    assert database.count_decisions() == len(made), "none is lost"
    database.close()
