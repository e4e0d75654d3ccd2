from __future__ import annotations

import json
from pathlib import Path

import pytest

from ontodex.corpora.cached import record_source
from ontodex.corpora.open import open_corpus, read_docs, write_docs
from ontodex.errors import DataError
from ontodex.types import Doc


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONTODEX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "corpora"


def write(path: Path, *texts: str) -> Path:
    write_docs([Doc(str(i), {"text": text}) for i, text in enumerate(texts)], path, "jsonl")
    return path


def test_a_file_is_read_once_and_then_mapped(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path / "docs.jsonl", "one", "two")
    first = open_corpus(path)
    made = (cache / first.folder.name / "docs.arrow").stat()
    again = open_corpus(path)
    assert again.folder == first.folder
    now = (cache / first.folder.name / "docs.arrow").stat()
    assert (now.st_ino, now.st_mtime_ns) == (made.st_ino, made.st_mtime_ns)
    assert [doc.text for doc in again] == ["one", "two"]


def test_paths_may_be_strings(tmp_path: Path, cache: Path) -> None:
    path = str(tmp_path / "docs.jsonl")
    assert write_docs([Doc("1", {"text": "one"})], path, "jsonl") == 1
    assert [doc.text for doc in read_docs(path)] == ["one"]
    assert open_corpus(path).folder == open_corpus(Path(path)).folder


def test_other_bytes_fields_or_label_lists_are_another_corpus(tmp_path: Path) -> None:
    path = write(tmp_path / "docs.jsonl", "one")
    first = open_corpus(path)
    assert open_corpus(write(path, "two")).folder != first.folder
    assert open_corpus(path, text_fields="text").folder != open_corpus(path).folder
    numbered = tmp_path / "train.txt"
    numbered.write_text("1 1 1\n0 0:1\n")
    before = open_corpus(numbered)
    (tmp_path / "labels.txt").write_text("cat\n")
    assert [doc.labels for doc in before] == [("0",)]
    assert [doc.labels for doc in open_corpus(numbered)] == [("cat",)]


def test_a_damaged_cache_is_made_again(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path / "docs.jsonl", "one")
    folder = open_corpus(path).folder
    (folder / "docs.arrow").write_bytes(b"half")
    assert [doc.text for doc in open_corpus(path)] == ["one"]


def test_a_corpus_that_another_process_makes_meanwhile_stays(tmp_path, cache, monkeypatch):
    path = write(tmp_path / "docs.jsonl", "one")
    theirs: list[int] = []

    def record(folder: Path, source: Path) -> None:
        record_source(folder, source)
        monkeypatch.undo()
        monkeypatch.setenv("ONTODEX_CACHE", str(cache.parent))
        theirs.append((open_corpus(path).folder / "docs.arrow").stat().st_ino)

    monkeypatch.setattr("ontodex.corpora.open.record_source", record)
    folder = open_corpus(path).folder
    assert [(folder / "docs.arrow").stat().st_ino] == theirs
    assert list(cache.iterdir()) == [folder]


def test_a_file_that_turns_out_damaged_leaves_no_corpus(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path / "docs.jsonl", "one")
    path.write_text(path.read_text() + "{broken\n")
    with pytest.raises(DataError, match=r"docs\.jsonl:2: not JSON"):
        open_corpus(path)
    assert list(cache.iterdir()) == []


def test_a_corpus_folder_is_opened_where_it_is(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "corpus"
    write_docs([Doc("1", {"text": "one"})], folder, "corpus")
    assert open_corpus(folder).folder == folder
    assert not cache.exists()


def test_the_cache_key_does_not_depend_on_where_a_file_lies(tmp_path: Path) -> None:
    here, there = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    here.write_text(json.dumps({"id": "1", "text": "x"}) + "\n")
    there.write_bytes(here.read_bytes())
    assert open_corpus(here).folder == open_corpus(there).folder


@pytest.mark.parametrize(
    ("name", "text", "has_ids"),
    [
        ("a.jsonl", '{"id": "7", "text": "trout"}\n', True),
        ("a.jsonl", '{"text": "trout", "labels": []}\n', False),
        ("a.csv", "id,text\n7,trout\n", True),
        ("a.csv", "text,labels\ntrout,fish\n", False),
        ("a.txt", "__label__fish trout in streams\n", False),
        ("a.csv", "document_id,text,subject_uris\n7,trout,<http://x/fish>\n", True),
    ],
)
def test_a_reader_says_whether_documents_have_ids_of_their_own(tmp_path, name, text, has_ids):
    (tmp_path / name).write_text(text)
    docs = read_docs(tmp_path / name)
    assert [doc.id for doc in docs] == ["7" if has_ids else "1"]
    assert docs.has_ids is has_ids
    assert docs.deleted == ()


def test_a_reader_gives_the_ids_that_a_file_of_medline_deletes(tmp_path):
    write_docs([Doc("7", {"title": "trout"})], tmp_path / "a.xml", "medline")
    text = (tmp_path / "a.xml").read_text()
    deletion = "<DeleteCitation><PMID>7</PMID><PMID>9</PMID></DeleteCitation></PubmedArticleSet>"
    (tmp_path / "a.xml").write_text(text.replace("</PubmedArticleSet>", deletion))
    docs = read_docs(tmp_path / "a.xml")
    assert list(docs) == []
    assert docs.deleted == {"7", "9"}
