from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.corpora.parsing.file_pairs import FilePair
from ontodex.errors import DataError

PAIR = FilePair("{}_texts.txt", "{}_labels.txt")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    texts, labels = tmp_path / "a_texts.txt", tmp_path / "a_labels.txt.gz"
    texts.touch()
    labels.touch()
    return texts, labels


def test_both_files_are_found_by_either_by_their_common_name_and_by_the_folder(files, tmp_path):
    for path in (*files, tmp_path / "a", tmp_path):
        assert PAIR.find(path) == files


def test_one_file_alone_is_no_pair(files, tmp_path):
    files[1].unlink()
    assert PAIR.find(tmp_path) is None
    with pytest.raises(DataError, match="two files of the corpus were not found") as caught:
        PAIR.require(files[0])
    assert "NAME_texts.txt and NAME_labels.txt" in caught.value.hint


def test_targets_keep_the_compression_of_the_name():
    expected = (Path("x/b_texts.txt.xz"), Path("x/b_labels.txt.xz"))
    assert PAIR.name_targets(Path("x/b_labels.txt.xz")) == expected
    assert PAIR.name_targets(Path("x/b.xz")) == expected
