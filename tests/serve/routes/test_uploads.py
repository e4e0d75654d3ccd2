"""Uploaded files become documents, or are named with the reason."""

from __future__ import annotations

import errno
import io
import tempfile
import zipfile

import pytest

from ontodex.serve import uploads


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
    assert answer.json()["rejected_files"] == []
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
        ("binary.txt", b"\x7fELF\x01\xe9\x02"),
        ("empty.txt", b"  "),
        ("picture.png", b"\x89PNG"),
        ("bad.jsonl", b'{"id": 1}\n'),
        ("entity.xml", b'<!DOCTYPE a [<!ENTITY x "y">]><PubmedArticleSet>&x;</PubmedArticleSet>'),
    )
    assert answer.json()["n_added"] == 1
    refused = {item["file"]: item["reason"] for item in answer.json()["rejected_files"]}
    assert set(refused) == {
        "bad.pdf", "bad.docx", "bomb.docx", "binary.txt", "empty.txt", "picture.png", "bad.jsonl",
        "entity.xml",
    }  # fmt: skip
    assert "not UTF-8" in refused["binary.txt"]
    assert "unpacks to 400,000,000 bytes" in refused["bomb.docx"]
    assert not any("/" in problem for problem in refused.values()), "no path of the server"
    assert upload(client, ("x.png", b"x")).status_code == 422


@pytest.mark.parametrize("metadata", ['{"a":' * 300 + "1" + "}" * 300, '{"a": NaN}'])
def test_metadata_of_an_uploaded_file_has_the_limits_of_a_body(client, metadata):
    line = '{"text": "trout", "metadata": ' + metadata + "}\n"
    answer = client.post("/documents/upload", files={"files": ("a.jsonl", line.encode())})
    assert answer.status_code == 422
    assert client.get("/documents/next").json()["document"] is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig", "utf-32"])
@pytest.mark.parametrize("ending", [".txt", ".md", ".html"])
def test_a_text_with_a_byte_order_mark_is_read(client, encoding, ending):
    if ending == ".html" and encoding == "utf-32":
        pytest.skip("browsers do not read UTF-32 either")
    text = "Forelle im Bächlein"
    raw = ("\ufeff" + text if encoding == "utf-16-be" else text).encode(encoding)
    answer = upload(client, (f"a{ending}", raw))
    assert (answer.status_code, answer.json()["warnings"]) == (201, [])
    assert client.get("/documents/1").json()["text"] == text


def test_files_in_another_language_are_named_in_a_warning(client):
    swedish = "Det har alltid varit många fiskar här, och de är också viktiga nu."
    answer = upload(client, ("a.txt", b"the trout"), ("b.txt", swedish.encode()))
    (warning,) = answer.json()["warnings"]
    assert warning["file"] == "b.txt"
    assert "seems to be Swedish; this run was trained on English documents" in warning["warning"]
    table = f'id,title\n1,the trout\n2,"{swedish}"\n'
    (warning,) = upload(client, ("c.csv", table.encode())).json()["warnings"]
    assert "1 of 2 texts seem" in warning["warning"]
    body = {"documents": [{"text": "the trout"}, {"text": swedish}]}
    (warning,) = client.post("/documents", json=body).json()["warnings"]
    assert "1 of 2 texts seem" in warning
    assert (
        client.post("/documents", json={"documents": body["documents"][:1]}).json()["warnings"]
        == []
    )


def test_a_text_in_latin_1_is_read_with_a_warning(client):
    answer = upload(client, ("a.txt", "Forelle im Bächlein".encode("latin-1")))
    assert answer.status_code == 201
    (warning,) = answer.json()["warnings"]
    assert warning["file"] == "a.txt"
    assert "windows-1252" in warning["warning"]
    found = client.get("/documents/1").json()
    assert found["text"] == "Forelle im Bächlein"
    assert found["metadata"] == {"encoding": "windows-1252"}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_corpus_in_another_encoding_is_read(client, encoding):
    answer = upload(client, ("a.csv", "id,text\n1,Bächlein\n".encode(encoding)))
    assert answer.status_code == 201
    warnings = [one["warning"] for one in answer.json()["warnings"]]
    expected = ["a.csv: not UTF-8, so read as windows-1252; save it as UTF-8 if letters look wrong"]
    assert warnings == (expected if encoding == "latin-1" else [])
    assert client.get("/documents/1").json()["text"] == "Bächlein"


TABLE = b"doc;headline;topics\na1;Trout swim;Fish / Unicorns\na2;Oaks grow;oak\n"


def test_columns_whose_names_are_no_text_are_answered(client):
    table = b'{"headl\\ud800ine": "trout", "topics": "fish"}\n' * 3
    answer = upload(client, ("a.jsonl", table), ("b.txt", b"trout"))
    assert answer.status_code == 201
    (rejected,) = answer.json()["rejected_files"]
    assert rejected["columns"] == ["headl\ufffdine", "topics"]
    assert "headl\ufffdine" in rejected["reason"]


def test_an_unmapped_table_is_answered_with_its_columns(client):
    answer = upload(client, ("a.csv", TABLE), ("b.txt", b"trout"))
    (rejected,) = answer.json()["rejected_files"]
    assert rejected["columns"] == ["doc", "headline", "topics"]
    assert "text_field" in rejected["reason"]
    alone = upload(client, ("a.csv", TABLE))
    assert alone.status_code == 422
    assert "doc, headline, topics" in alone.json()["errors"][0]["message"]


def test_labels_of_a_table_are_matched_counted_and_become_imported_decisions(client):
    answer = upload(
        client,
        ("a.csv", TABLE),
        text_field=["headline"],
        label_field="topics",
        id_field="doc",
        label_separator=" / ",
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["labels"] == {
        "n_read": 3,
        "n_ids": 1,
        "n_matched": 1,
        "n_ambiguous": 0,
        "n_unknown": 1,
        "ambiguous": [],
        "unknown": ["Unicorns"],
    }
    first, second = (client.get(f"/documents/{n}").json() for n in answer.json()["numbers"])
    assert (first["id"], first["fields"]) == ("a1", {"headline": "Trout swim"})
    assert first["metadata"] == {"unmatched_labels": ["Unicorns"]}
    (verdict,) = first["verdicts"]
    assert (verdict["label"], verdict["verdict"], verdict["imported"]) == ("fish", "add", True)
    assert [verdict["label"] for verdict in second["verdicts"]] == ["oak"]
    exported = client.get("/export", params={"format": "jsonl"}).text
    assert '"labels": ["fish"]' in exported


class FullDisk(io.BytesIO):
    """A file on a disk without room."""

    name = None

    def write(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("size", [10, 2**21])  # kept in memory, and written while it is received
def test_a_full_disk_is_not_the_fault_of_the_client(client, monkeypatch, size):
    """It was 500 for a small upload, and 400 for a large one."""
    if size > 2**20:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda *_, **__: FullDisk())
    else:
        monkeypatch.setattr(uploads, "_copy", lambda file, path: FullDisk().write(file.file.read()))
    answer = upload(client, ("a.txt", b"x" * size))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert "a disk of the service is full" in answer.json()["detail"]
    monkeypatch.undo()
    assert upload(client, ("a.txt", b"trout")).status_code == 201
