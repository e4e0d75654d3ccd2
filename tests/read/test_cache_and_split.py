"""Opening a corpus a second time, and dividing one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ontodex.errors import DataError
from ontodex.read import open_corpus, write_docs
from ontodex.read.split import by_hash, by_year, part_of, set_aside
from ontodex.types import Corpus, Doc


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


def test_other_bytes_fields_or_label_lists_are_another_corpus(tmp_path: Path) -> None:
    path = write(tmp_path / "docs.jsonl", "one")
    first = open_corpus(path)
    assert open_corpus(write(path, "two")).folder != first.folder
    assert open_corpus(path, text_fields=("note",)).folder != open_corpus(path).folder
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


def corpus_of(n: int, **metadata: int) -> Corpus:
    return Corpus.of(Doc(str(i), {"text": "t"}, metadata=metadata) for i in range(n))


def test_the_part_of_an_id_is_the_last_digit_of_its_hash() -> None:
    for id_ in ("1", "10028321", "ü"):
        last = int(hashlib.sha256(id_.encode()).hexdigest(), 16) % 10
        assert part_of(id_) == ("test" if last == 0 else "dev" if last == 1 else "train")


def test_parts_are_disjoint_whole_and_independent_of_order() -> None:
    corpus = corpus_of(1000)
    parts = by_hash(corpus)
    ids = [set(part.ids) for part in parts]
    assert set.union(*ids) == set(corpus.ids)
    assert sum(map(len, ids)) == 1000
    assert [len(part) for part in parts] == pytest.approx([800, 100, 100], abs=40)
    backwards = by_hash(Corpus.of(reversed(list(corpus))))
    assert [set(part.ids) for part in backwards] == ids


def test_a_tenth_is_set_aside_even_of_a_part_that_was_split_by_hash() -> None:
    train, _, _ = by_hash(corpus_of(3000))
    rest, dev = set_aside(train)
    assert len(dev) == pytest.approx(len(train) / 10, rel=0.2)
    assert set(rest.ids) | set(dev.ids) == set(train.ids)
    assert not set(rest.ids) & set(dev.ids)


@pytest.mark.parametrize("n", range(2, 12))
def test_small_corpora_keep_something_on_both_sides(n: int) -> None:
    train, dev = set_aside(corpus_of(n))
    assert len(train) >= 1
    assert len(dev) >= 1


def test_years_divide_at_their_borders() -> None:
    docs = [Doc(str(year), {"text": "t"}, metadata={"year": year}) for year in range(1990, 2000)]
    train, dev, test = by_year(Corpus.of(docs), dev_from=1997, test_from=1999)
    assert train.ids == [str(year) for year in range(1990, 1997)]
    assert (dev.ids, test.ids) == (["1997", "1998"], ["1999"])
    with pytest.raises(DataError, match="document '0' has no year"):
        by_year(corpus_of(1), dev_from=1, test_from=2)


def test_the_cache_key_does_not_depend_on_where_a_file_lies(tmp_path: Path) -> None:
    here, there = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    here.write_text(json.dumps({"id": "1", "text": "x"}) + "\n")
    there.write_bytes(here.read_bytes())
    assert open_corpus(here).folder == open_corpus(there).folder
