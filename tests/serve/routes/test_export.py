"""Exports are read back by their own readers."""

from __future__ import annotations

import csv
import io

import pytest

from ontodex.corpora.open import read_docs


@pytest.fixture
def decided(client, decide):
    evil = {"id": '=HYPERLINK("http://e")', "text": "=1+1\ttrout\nand more", "metadata": {"y": 1}}
    client.post(
        "/documents",
        json={"documents": [evil, {"id": "o1", "text": "old oaks"}, {"text": "trout"}]},
    )
    decide(client, 1, "fish")
    decide(client, 1, "http://e.org/road", "add")
    decide(client, 1, "oak", "reject")
    decide(client, 2, "oak")
    client.put("/documents/2/state", json={"state": "done"})
    return client


def export(client, **query):
    answer = client.get("/export", params=query)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith("attachment")
    return answer.text


def test_jsonl_is_a_corpus_again(decided, tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text(export(decided, format="jsonl"))
    first, second = read_docs(path)
    assert first.labels == ("fish", "http://e.org/road")
    assert first.fields == {"text": "=1+1\ttrout\nand more"}
    assert first.metadata == {
        "y": 1,
        "notations": ["12", ""],
        "rejected": ["oak"],
        "who": ["local"],
    }
    assert second.id == "o1"


def test_only_what_is_asked_for_is_exported(decided):
    assert len(export(decided, format="jsonl", state="done").splitlines()) == 1
    assert export(decided, format="jsonl", batch="none") == ""


def test_no_cell_of_a_csv_is_a_formula(decided):
    rows = list(csv.DictReader(io.StringIO(export(decided, format="csv"))))
    assert rows[0]["id"] == '\'=HYPERLINK("http://e")'
    assert rows[0]["text"].startswith("'=1+1")
    assert (rows[0]["labels"], rows[0]["names"]) == ("fish|http://e.org/road", "Fish|Road safety")
    assert rows[0]["notations"] == '["12", ""]'
    assert (rows[1]["id"], rows[1]["notations"]) == ("o1", "")


def test_annif_tsv_is_read_back(decided, tmp_path):
    path = tmp_path / "out.tsv"
    path.write_text(export(decided, format="annif-tsv"))
    docs = list(read_docs(path, "annif-tsv"))
    assert [doc.labels for doc in docs] == [("fish", "http://e.org/road"), ("oak",)]
    assert docs[0].text == "=1+1 trout and more"


def test_skos_is_turtle(decided):
    import pyoxigraph as ox

    triples = list(ox.parse(export(decided, format="skos").encode(), format=ox.RdfFormat.TURTLE))
    subjects = {t.object.value for t in triples if t.predicate.value.endswith("subject")}
    assert subjects == {
        "urn:ontodex:concept:fish", "http://e.org/road", "urn:ontodex:concept:oak"
    }  # fmt: skip
    assert "Road safety" in {t.object.value for t in triples}


def test_marc_has_a_650_a_label(decided):
    lines = export(decided, format="marc").splitlines()
    assert "=650  \\7$aFish$2local$0fish" in lines
    assert "=084  \\\\$a12$2local" in lines
    assert lines[0].startswith("=LDR  ")
    assert lines[1] == '=001  =HYPERLINK("http://e")'


def test_marc_takes_a_field_and_a_code(decided):
    lines = export(decided, format="marc", marc_field="655", marc_source="stw").splitlines()
    assert "=655  \\7$aFish$2stw$0fish" in lines
    assert decided.get("/export", params={"marc_source": "$2x"}).status_code == 422
    for wrong in ("651", "http://e.org/Place=999", "a b=651"):
        assert decided.get("/export", params={"marc_type": wrong}).status_code == 422
    given = export(decided, format="marc", marc_type="http://e.org/Place=651")
    assert given == export(decided, format="marc")
