"""The queue, decisions, uploads and exports: a curator's day over HTTP."""

from __future__ import annotations

import csv
import io
import json
import zipfile

import pytest

from ontodex.read import read_docs

TROUT = {"id": "t1", "title": "A trout", "abstract": "swims in the stream"}
OAK = {"id": "o1", "text": "old oaks in the forest"}


@pytest.fixture
def queue(client):
    """A client whose queue has two documents, numbers 1 and 2."""
    answer = client.post("/documents", json={"documents": [TROUT, OAK], "batch": "may"})
    assert (answer.status_code, answer.json()["numbers"]) == (201, [1, 2])
    return client


def decide(client, document, label, verdict="accept", **more):
    wanted = {"document": document, "label": label, "verdict": verdict, **more}
    answer = client.post("/decisions", json={"decisions": [wanted]})
    assert answer.status_code == 201, answer.text
    return answer.json()["decisions"][0]


def verdicts(client, number):
    return {v["label"]: v["verdict"] for v in client.get(f"/documents/{number}").json()["verdicts"]}


def test_the_queue_keeps_documents_as_they_came(queue):
    found = queue.get("/documents/1").json()
    assert found["fields"] == {"title": "A trout", "abstract": "swims in the stream"}
    assert found["text"] == "A trout\nswims in the stream"
    assert (found["state"], found["batch"], found["added_by"]) == ("open", "may", "local")
    listed = queue.get("/documents").json()
    assert [d["title"] for d in listed["documents"]] == ["A trout", "old oaks in the forest"]
    assert (listed["open"], listed["done"], listed["batches"]) == (2, 0, ["may"])
    assert queue.get("/documents", params={"after": 1}).json()["documents"][0]["number"] == 2
    assert queue.get("/documents", params={"batch": "june"}).json()["documents"] == []


def test_next_walks_through_the_open_ones_and_around(queue):
    def next_after(number):
        document = queue.get("/documents/next", params={"after": number}).json()["document"]
        return document and document["number"]

    assert [next_after(0), next_after(1), next_after(2)] == [1, 2, 1]
    assert queue.put("/documents/1/state", json={"state": "done"}).json()["done_by"] == "local"
    assert [next_after(0), next_after(2)] == [2, 2]
    queue.put("/documents/2/state", json={"state": "done"})
    assert next_after(0) is None
    assert queue.put("/documents/1/state", json={"state": "open"}).json()["done"] is None
    assert queue.get("/documents/next").json()["open"] == 1


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"title": " On\n trout "}, "On trout"),
        ({"title": " ", "text": "No title"}, "No title"),
        ({"text": "stream " * 50}, "stream " * 16 + "…"),
        ({"text": "水" * 300}, "水" * 118 + " …"),
    ],
)
def test_a_row_of_the_queue_shows_the_title_or_how_the_text_begins(client, fields, shown):
    client.post("/documents", json={"documents": [fields]})
    assert client.get("/documents").json()["documents"][0]["title"] == shown


def test_a_document_without_words_is_refused_and_none_of_its_request_is_queued(client):
    body = {"documents": [{"text": "trout"}, {"text": " \n"}]}
    answer = client.post("/documents", json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["where"] == "body.documents.1"
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


def test_a_decision_remembers_who_when_which_run_and_its_probability(queue):
    (first, *_) = queue.post("/documents/1/suggest", json={}).json()["suggestions"]
    assert (first["label"], first["verdict"]) == ("fish", None)
    made = decide(queue, 1, "fish", run="small")
    assert (made["who"], made["run"], made["name"]) == ("local", "small", "Fish")
    assert made["probability"] == pytest.approx(first["probability"], abs=1e-6)
    assert made["when"].endswith("Z")
    again = queue.post("/documents/1/suggest", json={}).json()["suggestions"][0]
    assert again == {**first, "verdict": "accept"}
    assert decide(queue, 1, "newt", "add")["probability"] is None


def test_the_last_decision_counts_and_undo_brings_the_one_before_back(queue):
    first = decide(queue, 1, "fish")
    second = decide(queue, 1, "fish", "reject")
    assert verdicts(queue, 1) == {"fish": "reject"}
    assert queue.post(f"/decisions/{second['id']}/undo").json()["undone"] is True
    assert verdicts(queue, 1) == {"fish": "accept"}
    assert queue.post(f"/decisions/{second['id']}/undo").status_code == 409
    queue.post(f"/decisions/{first['id']}/undo")
    assert verdicts(queue, 1) == {}
    log = queue.get("/decisions", params={"document": 1}).json()["decisions"]
    assert [(d["verdict"], d["undone"]) for d in log] == [("accept", True), ("reject", True)]
    assert queue.post("/decisions/99/undo").status_code == 404


def test_the_same_request_is_written_once(queue):
    first = decide(queue, 1, "fish", request="r1")
    assert decide(queue, 1, "fish", request="r1") == first
    assert len(queue.get("/decisions").json()["decisions"]) == 1
    other = {"document": 1, "label": "oak", "verdict": "accept", "request": "r1"}
    assert queue.post("/decisions", json={"decisions": [other]}).status_code == 409


def test_decisions_are_written_all_or_none(queue):
    good = {"document": 1, "label": "fish", "verdict": "accept"}
    for bad in ({**good, "document": 99}, {**good, "label": "whale"}, {**good, "run": "none"}):
        answer = queue.post("/decisions", json={"decisions": [good, bad]})
        assert answer.status_code == 404
    assert queue.get("/decisions").json()["decisions"] == []


def test_a_queued_document_is_explained(queue):
    answer = queue.post("/documents/1/explain", json={"label": "fish"}).json()
    assert "trout" in {answer["text"][s["start"] : s["end"]] for s in answer["spans"]}


# ------------------------------------------------------------------------------------- uploads


def pdf_of(text: str) -> bytes:
    """The smallest PDF with one line of text."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >> stream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, start=1):
        places.append(len(out))
        out += b"%d 0 obj %s endobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(parts) + 1, table)
    return out + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (6, start)


def docx_of(*paragraphs: str) -> bytes:
    import docx

    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    document.add_table(1, 1).cell(0, 0).text = "in a table"
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def upload(client, *files, **data):
    sent = [("files", (name, content)) for name, content in files]
    return client.post("/documents/upload", files=sent, data=data)


HTML = b"""<html><head><title>Trout</title><style>p{}</style></head><body><h1>Streams</h1>
<script>alert('no text')</script><p>Trout <b>swim</b>.<!-- no --> Well.</p>
caf\xc3\xa9</body></html>"""
JSONL = b'{"id": "a", "title": "trout"}\n{"id": "b", "text": "oak", "labels": ["oak"]}\n'


@pytest.mark.slow
def test_files_become_documents(client):
    answer = upload(
        client,
        ("a.txt", b"plain trout"),
        ("sub/b.md", b"# Oak"),
        ("c.html", HTML),
        ("d.pdf", pdf_of("Trout in a PDF")),
        ("e.docx", docx_of("first", "second")),
        ("f.jsonl", JSONL),
        ("g.csv", b"id,title\n7,cars brake\n"),
        batch="files",
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["refused"] == []
    found = [client.get(f"/documents/{number}").json() for number in answer.json()["numbers"]]
    assert [d["id"] for d in found] == ["a.txt", "b.md", "c.html", "d.pdf", "e.docx", "a", "b", "7"]
    texts = [d["text"] for d in found]
    assert texts[0] == "plain trout"
    assert texts[2] == "Trout\nStreams\nTrout swim. Well.\ncafé"
    assert texts[3].strip() == "Trout in a PDF"
    assert texts[4] == "first\nsecond\nin a table"


@pytest.mark.slow
def test_a_file_of_an_unknown_kind_costs_no_process(client, monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    answer = client.post("/documents/upload", files=[("files", ("tool.exe", b"MZ"))])
    assert answer.status_code == 422
    assert "'.exe'" in answer.json()["errors"][0]["message"]


def test_files_that_cannot_be_read_are_named_and_the_others_taken(client):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 400_000_000)
    answer = upload(
        client,
        ("good.txt", b"trout"),
        ("bad.pdf", b"%PDF-1.4 nonsense"),
        ("bad.docx", b"PK nonsense"),
        ("bomb.docx", bomb.getvalue()),
        ("latin.txt", b"caf\xe9"),
        ("empty.txt", b"  "),
        ("picture.png", b"\x89PNG"),
        ("bad.jsonl", b'{"id": 1}\n'),
        ("entity.xml", b'<!DOCTYPE a [<!ENTITY x "y">]><PubmedArticleSet>&x;</PubmedArticleSet>'),
    )
    assert answer.json()["added"] == 1
    refused = {item["file"]: item["problem"] for item in answer.json()["refused"]}
    assert set(refused) == {
        "bad.pdf", "bad.docx", "bomb.docx", "latin.txt", "empty.txt", "picture.png", "bad.jsonl",
        "entity.xml",
    }  # fmt: skip
    assert "not UTF-8" in refused["latin.txt"]
    assert "unpacks to 400,000,000 bytes" in refused["bomb.docx"]
    assert not any("/" in problem for problem in refused.values()), "no path of the server"
    assert upload(client, ("x.png", b"x")).status_code == 422


# ------------------------------------------------------------------------------------- exports


@pytest.fixture
def decided(client):
    evil = {"id": '=HYPERLINK("http://e")', "text": "=1+1\ttrout\nand more", "metadata": {"y": 1}}
    client.post("/documents", json={"documents": [evil, OAK, TROUT]})
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
    assert first.metadata == {"y": 1, "rejected": ["oak"], "who": ["local"]}
    assert second.id == "o1"


def test_only_what_is_asked_for_is_exported(decided):
    assert len(export(decided, format="jsonl", state="done").splitlines()) == 1
    assert export(decided, format="jsonl", batch="none") == ""


def test_no_cell_of_a_csv_is_a_formula(decided):
    rows = list(csv.DictReader(io.StringIO(export(decided, format="csv"))))
    assert rows[0]["id"] == '\'=HYPERLINK("http://e")'
    assert rows[0]["text"].startswith("'=1+1")
    assert (rows[0]["labels"], rows[0]["names"]) == ("fish|http://e.org/road", "Fish|Road safety")
    assert rows[1]["id"] == "o1"


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
    assert lines[0] == '=001  =HYPERLINK("http://e")'


def test_marc_signs_are_written_by_name():
    from ontodex.serve.export import _marc

    assert _marc("a$b{c}\\\nd") == "a{dollar}b{lcub}c{rcub}{bsol} d"


def test_hostile_texts_come_back_as_they_went(client):
    texts = ["<script>alert(1)</script>", "\u2028 \ufeff \U0001f41f", "'; DROP TABLE documents; --"]
    body = {"documents": [{"text": text, "id": text} for text in texts], "batch": texts[2]}
    numbers = client.post("/documents", json=body).json()["numbers"]
    found = [client.get(f"/documents/{number}").json() for number in numbers]
    assert [(d["text"], d["id"]) for d in found] == [(t, t) for t in texts]
    assert json.loads(client.get("/documents").text)["batches"] == [texts[2]]
