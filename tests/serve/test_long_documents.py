"""Lists, exports and predictions of long documents: they are read one at a time."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from collections.abc import Iterator

import pytest

from ontodex.serve.database import queue
from ontodex.serve.database.database import Database
from ontodex.serve.database.stored_rows import HEAD, decode_head
from ontodex.serve.database.tables import NewDecision, QueueFilter
from ontodex.serve.export_formats import read_records
from ontodex.types import Doc

LONG = 1_000_000  # characters
N = 30


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "decisions.sqlite"
    database = Database.open(str(path))
    for number in range(N):
        doc = Doc(f"d{number}", {"title": f"Trout {number}", "text": "é" * LONG}, ("k" * LONG,))
        database.add_documents([doc], batch="b", user="ada")
    database.write_decisions([NewDecision(i + 1, "fish", "accept") for i in range(N)], user="ada")
    database.close()
    return path


@pytest.fixture
def database(path) -> Iterator[Database]:
    database = Database.open(str(path))
    yield database
    database.close()


@pytest.fixture
def client(path, start):
    return start(database=str(path))


class Peak:
    """The largest memory of a block over that at its start."""

    def __enter__(self) -> Peak:
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.n_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


ONE = 7 * LONG  # characters of JSON that a long document has: each é takes six


def test_a_list_holds_no_long_text(database):
    with Peak() as peak:
        rows = database.queue.list_by_number(limit=N, only_heads=True)
    assert len(rows) == N
    assert peak.n_bytes < ONE / 2


def test_a_list_shows_the_titles_of_long_documents(client):
    listed = client.get(f"/documents?limit={N}").json()["documents"]
    assert [one["title"] for one in listed] == [f"Trout {number}" for number in range(N)]
    found = client.get(f"/documents?limit={N}&order=uncertainty").json()["documents"]
    assert [one["number"] for one in found] == list(range(1, N + 1))


def test_a_page_ends_where_its_documents_are_long(database, monkeypatch):
    numbers: list[int] = []
    while rows := database.queue.list_by_number(after=numbers[-1] if numbers else 0, limit=200):
        assert len(rows) == 2  # the second one goes beyond ten million
        numbers += [row["number"] for row in rows]
    assert numbers == list(range(1, N + 1))
    monkeypatch.setattr(queue, "PAGE_TEXT", 1)
    assert len(database.queue.list_by_number(limit=200)) == 1


def test_an_export_and_the_check_hold_few_documents(database):
    with Peak() as peak:
        numbers = [record.number for record in read_records(database, QueueFilter())]
    assert numbers == list(range(1, N + 1))
    assert peak.n_bytes < 8 * ONE
    with Peak() as peak:
        database.queue.check_all(lambda: False)
    assert peak.n_bytes < 8 * ONE


def test_documents_that_are_long_are_predicted_in_several_requests(client):
    left = []
    while True:
        answer = client.post("/documents/predict", json={"limit": 64}).json()
        left.append(answer["n_left"])
        if not answer["n_predicted"]:
            break
    assert left == [*range(N - 2, 0, -2), 0, 0]


def test_the_next_document_comes_with_its_whole_text(client):
    assert len(client.get("/documents/next").json()["document"]["fields"]["text"]) == LONG


def make_row(fields: str, **more: str) -> dict[str, object]:
    common = dict.fromkeys(("id", "batch", "added_at", "added_by"), "a")
    row = {"number": 1, "state": "open", "done_at": None, "done_by": None, **common}
    return {**row, "fields": fields[: HEAD + 1], "keywords": "[]", "metadata": "{}", **more}


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f41f", '"', "\\", "\n", "\\u00e9", "/"])
def test_a_text_is_cut_anywhere_without_harm(letter):
    for shift in range(14):
        fields = {"ti\"t'le": "a" * shift, "text": letter * HEAD, "rest": "b"}
        found = decode_head(make_row(json.dumps(fields)))["fields"]
        assert list(found) == ["ti\"t'le", "text"]
        assert found["ti\"t'le"] == "a" * shift
        assert fields["text"].startswith(found["text"].rstrip("\ufffd"))
        assert len(found["text"]) > HEAD // 13 - 20


def test_a_cut_in_a_name_loses_that_field_only():
    fields = json.dumps({"title": "Trout", "n" * HEAD: "x"})
    assert decode_head(make_row(fields))["fields"] == {"title": "Trout"}
    assert decode_head(make_row('{"title": ' * HEAD))["fields"] == {}


def test_long_metadata_is_no_damage():
    metadata = json.dumps({"a": "b" * HEAD})[: HEAD + 1]
    found = decode_head(make_row('{"title": "Trout"}', metadata=metadata))
    assert (found["fields"], found["metadata"]) == ({"title": "Trout"}, {})


def test_damage_in_short_columns_is_found_in_lists(path, start):
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE documents SET metadata = '[' WHERE number = 1")
    connection.close()
    client = start(database=str(path))
    assert client.get("/documents?limit=3").json()["documents"][0]["number"] == 2
    assert client.get("/documents").json()["n_quarantined"] == 1


def test_many_documents_are_stored_in_pieces_and_keep_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr("ontodex.serve.database.tables.INSERTED_TEXT", 10)
    database = Database.open(str(tmp_path / "other.sqlite"))
    docs = [Doc(str(n), {"text": "x" * (n % 13)}, labels=(f"l{n}",)) for n in range(2_500)]
    numbers = database.add_documents(docs, batch="b", user="ada")
    assert numbers == list(range(1, 2_501))
    assert database.get_document(1_777)["id"] == "1776"
    assert database.find_verdicts([2_500])[2_500][0]["label"] == "l2499"
    assert database.add_documents([], batch="b", user="ada") == []
    database.close()


def test_lists_come_from_postgresql_too(postgres):
    database = Database.open(postgres)
    docs = [Doc(str(n), {"title": f"Trout {n}", "text": "é" * 2_000_000}) for n in range(4)]
    database.add_documents(docs, batch="b", user="ada")
    heads = database.queue.list_by_number(limit=9, only_heads=True)
    assert [row["fields"]["title"] for row in heads] == [f"Trout {n}" for n in range(4)]
    assert [len(row["fields"]["text"]) > 1000 for row in heads] == [True] * 4
    assert [row["number"] for row in database.queue.list_by_number(limit=9)] == [1]
    database.close()
