"""The cache of corpora: shown and cleared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ontodex.corpora.cached import clear_cache, explain_cache_errors, find_cache, list_cached
from ontodex.corpora.open import open_corpus
from ontodex.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONTODEX_CACHE", str(tmp_path / "cache"))


def write(path: Path, *texts: str) -> Path:
    lines = [f'{{"id": "{number}", "text": "{text}"}}\n' for number, text in enumerate(texts)]
    path.write_text("".join(lines))
    return path


def test_an_empty_cache_has_no_corpora():
    assert list_cached() == []
    assert clear_cache() == []


def test_corpora_are_listed_with_source_documents_and_size(tmp_path):
    short = write(tmp_path / "short.jsonl", "trout")
    long = write(tmp_path / "long.jsonl", "trout " * 5_000, "oak")
    for path in (short, long):
        open_corpus(path)
    found = list_cached()
    assert [(one.source, one.documents) for one in found] == [(str(long), 2), (str(short), 1)]
    assert found[0].bytes > 30_000 > found[1].bytes > 0


def test_a_cleared_corpus_is_read_again(tmp_path):
    path = write(tmp_path / "docs.jsonl", "trout")
    held = open_corpus(path)
    (removed,) = clear_cache()
    assert removed.source == str(path)
    assert list_cached() == []
    assert [doc.text for doc in held] == ["trout"], "a corpus in use stays readable"
    assert [doc.text for doc in open_corpus(path)] == ["trout"]


def test_only_old_corpora_are_cleared_where_an_age_is_given(tmp_path):
    old, new = (open_corpus(write(tmp_path / f"{name}.jsonl", name)) for name in ("old", "new"))
    for path in (old.folder, *old.folder.rglob("*")):
        os.utime(path, (0, 0))
    assert [one.folder for one in clear_cache(older_than=30)] == [old.folder]
    assert [one.folder for one in list_cached()] == [new.folder]


def test_a_damaged_corpus_can_be_cleared():
    folder = find_cache() / "damaged"
    folder.mkdir(parents=True)
    (folder / "corpus.json").write_text("not JSON")
    assert [one.documents for one in clear_cache()] == [0]
    assert not folder.exists()


@pytest.mark.parametrize("place", ["file", "file/cache", "/proc/cache"])
def test_a_cache_that_cannot_be_written_is_a_sentence_that_names_the_variable(
    tmp_path, monkeypatch, place
):
    """A container whose user has no writable home could not train, and was not told why."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ONTODEX_CACHE", str(tmp_path / place))
    with pytest.raises(ConfigError, match="the cache of corpora cannot be written") as caught:
        open_corpus(write(tmp_path / "docs.jsonl", "trout"))
    assert "ONTODEX_CACHE" in caught.value.hint


def test_a_full_disk_under_the_cache_is_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="No space left on device"), explain_cache_errors():
        Path("/dev/full").write_text("trout")


def test_an_error_of_the_corpus_is_not_one_of_the_cache(tmp_path):
    with pytest.raises(FileNotFoundError), explain_cache_errors():
        (tmp_path / "missing.jsonl").read_text()
