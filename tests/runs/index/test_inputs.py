"""Inputs: files, folders, patterns, lists; their order and names."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ontodex.corpora.open import write_docs
from ontodex.errors import ConfigError, DataError
from ontodex.runs.index.inputs import find_inputs
from ontodex.types import Doc


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as PubMed's: files of two kinds with checksums, a note, and a folder inside."""
    (tmp_path / "more" / "date=2026-01-02").mkdir(parents=True)
    for name in ("b.xml.gz", "a.xml.gz", "a.xml.gz.md5", "README.txt", ".hidden.csv",
                 "more/date=2026-01-02/part-0.parquet", "more/.part.csv.gz"):  # fmt: skip
        (tmp_path / name).write_text(name)
    return tmp_path


def names_of(*sources: object, since: datetime | None = None) -> list[str]:
    return [found.name for found in find_inputs([str(source) for source in sources], since)]


def test_a_folder_gives_its_data_files_by_name_and_nothing_else(folder):
    assert names_of(folder) == ["a", "b", "more/date=2026-01-02/part-0"]


def test_files_patterns_and_lists_name_inputs_each_once_in_the_order_of_names(folder, tmp_path):
    assert names_of(folder / "b.xml.gz", folder / "a.xml.gz") == ["a", "b"]
    assert names_of(f"{folder}/*.xml.gz") == ["a", "b"]
    assert names_of(f"{folder}/more/*/part-?.parquet") == ["date=2026-01-02/part-0"]
    listed = tmp_path / "list.txt"
    listed.write_text(f"{folder}/b.xml.gz\n\n{folder}/*.xml.gz\n")
    assert names_of(f"@{listed}", folder / "b.xml.gz") == ["a", "b"]
    assert names_of(folder / "README.txt") == ["README"]


def test_what_is_not_there_is_an_error(folder):
    for source, message in (
        (folder / "c.xml", "no such file"),
        (f"{folder}/*.csv", "no file matches"),
        (folder / "more" / "x*", "no file matches"),
    ):
        with pytest.raises(DataError, match=message):
            names_of(source)
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text("x")
    with pytest.raises(DataError, match=r"a folder without \.xml"):
        names_of(folder / "notes")


def test_two_inputs_of_one_name_are_refused(folder):
    (folder / "a.csv").write_text("x")
    with pytest.raises(ConfigError, match=r"a\.csv and .*a\.xml\.gz would write the same part 'a'"):
        names_of(folder / "a.csv", folder / "a.xml.gz")


def test_since_leaves_out_what_was_modified_before(folder):
    before, day = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2)
    os.utime(folder / "a.xml.gz", (before.timestamp(), before.timestamp()))
    assert names_of(f"{folder}/*.xml.gz", since=day) == ["b"]
    assert names_of(f"{folder}/*.xml.gz", since=before) == ["a", "b"]


def test_a_change_of_an_input_shows_in_its_version(folder):
    (first,) = find_inputs([str(folder / "a.xml.gz")])
    os.utime(folder / "a.xml.gz", (1, 1))
    (second,) = find_inputs([str(folder / "a.xml.gz")])
    assert first._replace(version="") == second._replace(version="")
    assert first.version != second.version


def test_a_corpus_folder_is_one_input(tmp_path):
    write_docs([Doc("1", {"text": "trout"})], tmp_path / "corpus", "corpus")
    (found,) = find_inputs([str(tmp_path / "corpus")])
    assert (found.name, found.location) == ("corpus", str(tmp_path / "corpus"))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("trout")
    (tmp_path / "texts" / "a.key").write_text("fish")
    assert names_of(tmp_path / "texts") == ["texts"]


def test_no_part_is_written_outside_of_its_folder(folder):
    (folder / "secret.jsonl").write_text("x")
    (folder / "more" / "deep").mkdir()
    for pattern in (f"{folder}/*/../secret.jsonl", f"{folder}/mor[e]/deep/../../*.jsonl"):
        with pytest.raises(DataError, match="cannot go up"):
            names_of(pattern)
    assert names_of(f"{folder}/more/../*.jsonl") == ["secret"]
    assert names_of(f"{folder}/more/../secret.jsonl") == ["secret"]


def test_a_name_that_would_be_hidden_is_refused(folder):
    (folder / ".jsonl").write_text("x")
    for name in (".hidden.csv", ".jsonl", "more/.part.csv.gz"):
        with pytest.raises(DataError, match="no part can have the name"):
            names_of(folder / name)
    with pytest.raises(DataError, match="no file matches"):
        names_of(f"{folder}/.*.csv")


def test_hostile_keys_of_an_object_store_are_left_out(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for key in ("a.jsonl", "../a.jsonl", "x/../../b.jsonl", "x/.c.jsonl"):
        system.store[f"/keys/{key}"] = system.store.get("/keys/a.jsonl") or _put(system)
    try:
        assert names_of("memory://keys") == ["a"]
        assert names_of("memory://keys/**") == ["a"]
    finally:
        system.store.clear()


def _put(system):
    system.pipe_file("/keys/a.jsonl", b"{}")
    return system.store["/keys/a.jsonl"]


def test_a_list_that_names_itself_is_refused(folder, tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text(f"@{one}\n")
    with pytest.raises(DataError, match=r"one\.txt: this list names itself"):
        names_of(f"@{one}")
    one.write_text(f"{folder}/a.xml.gz\n@{two}\n")
    two.write_text(f"@{tmp_path}/./one.txt\n")
    with pytest.raises(DataError, match=r"one\.txt: this list names itself"):
        names_of(f"@{one}")
    two.write_text(f"{folder}/b.xml.gz\n")
    assert names_of(f"@{one}", f"@{two}", f"@{one}") == ["a", "b"]


def test_lists_in_lists_have_an_end(folder, tmp_path):
    def write(count: int) -> str:
        for number in range(count):
            (tmp_path / f"{number}.txt").write_text(f"@{tmp_path}/{number + 1}.txt\n" * 10)
        (tmp_path / f"{count}.txt").write_text(f"{folder}/a.xml.gz\n")
        return f"@{tmp_path}/0.txt"

    assert names_of(write(15)) == ["a"]
    with pytest.raises(DataError, match="is a list in 16 others"):
        names_of(write(16))
    with pytest.raises(DataError, match="is a list in 16 others"):
        names_of(write(2_000))
