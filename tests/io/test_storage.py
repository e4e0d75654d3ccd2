"""Files by location: the same on this machine and through fsspec."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ontodex.errors import DataError, MissingExtraError
from ontodex.io.files import write_text
from ontodex.io.storage import (
    fetch_file,
    find_files,
    get_name,
    is_remote,
    join,
    list_files,
    read_texts,
    remove,
    store_file,
)


@pytest.fixture(params=["path", "file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "path":
        yield str(tmp_path / "root")
        return
    pytest.importorskip("fsspec")
    location = f"file://{tmp_path}/root" if request.param == "file" else "memory://root"
    yield location
    remove(location)


def write(location: str, text: str) -> None:
    with store_file(location) as path:
        write_text(path, text)


def test_files_are_written_listed_read_and_removed(root):
    assert list_files(root) == []
    for name in ("b/two.txt", "a.txt", "b/one.txt", "b/.hidden"):
        write(join(root, name), name)
    files = list_files(root)
    assert [file.name for file in files] == ["a.txt", "b/one.txt", "b/two.txt"]
    assert [file.size for file in files] == [5, 9, 9]
    with fetch_file(files[1].location) as path:
        assert path.read_text() == "b/one.txt"
        assert path.name == "one.txt"
    assert is_remote(root) != path.exists()  # what was fetched is gone
    assert [file.name for file in list_files(join(root, "a.txt"))] == ["a.txt"]
    assert read_texts(join(root, "b")) == {"one.txt": "b/one.txt", "two.txt": "b/two.txt"}
    remove(join(root, "b"))
    assert read_texts(root) == {"a.txt": "a.txt"}
    assert read_texts(join(root, "b")) == {}


def test_files_that_are_gone_while_a_folder_is_listed_are_left_out(tmp_path):
    """Another worker has renamed them: links to nothing stand for them here."""
    (tmp_path / "000001.arrow").write_text("whole")
    for name in (".000002.arrow.17.0a1b2c3d.part", "000003.arrow"):
        (tmp_path / name).symlink_to(tmp_path / "nothing")
    assert [file.name for file in list_files(str(tmp_path))] == ["000001.arrow"]


def test_patterns_find_files_with_names_from_the_first_wildcard_on(root):
    for name in ("a/1.csv", "a/2.csv", "a/2.txt", "b/1.csv"):
        write(join(root, name), name)
    assert [file.name for file in find_files(join(root, "*", "1.csv"))] == ["a/1.csv", "b/1.csv"]
    assert [file.name for file in find_files(join(root, "a", "*.csv"))] == ["1.csv", "2.csv"]
    assert find_files(join(root, "*.csv")) == []
    with fetch_file(find_files(join(root, "a", "2*v"))[0].location) as path:
        assert path.read_text() == "a/2.csv"


def test_a_block_that_fails_writes_nothing(root):
    with pytest.raises(ZeroDivisionError), store_file(join(root, "a.txt")) as path:
        path.name.index("a")
        raise ZeroDivisionError
    assert list_files(root) == []


def test_another_content_has_another_version(root):
    write(join(root, "a.txt"), "one")
    (before,) = list_files(root)
    write(join(root, "a.txt"), "two, longer")
    (after,) = list_files(root)
    assert (before.size, before.version) != (after.size, after.version)


def test_what_cannot_be_opened_is_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"unknown://x: cannot be opened \("):
        list_files("unknown://x")
    with (
        pytest.raises(DataError, match="memory://none: cannot be read"),
        fetch_file("memory://none"),
    ):
        pass
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"needs the package 'fsspec'") as error:
        list_files("s3://bucket")
    assert "ontodex[remote]" in error.value.hint
    assert list_files(str(tmp_path)) == []


def test_the_last_part_of_a_location_is_its_name():
    assert [get_name(place) for place in ("a/b.csv", "s3://a/b/", "b")] == ["b.csv", "b", "b"]
