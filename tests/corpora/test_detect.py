from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.corpora.detect import detect_format, infer_format
from ontodex.corpora.open import read_docs, write_docs
from ontodex.errors import ConfigError, DataError
from ontodex.types import Doc


def test_a_folder_with_two_pairs_is_an_error_that_names_both(tmp_path: Path) -> None:
    for name in ("train", "test"):
        write_docs([Doc("1", {"text": "a"}, labels=("b",))], tmp_path / name, "attentionxml")
    with pytest.raises(DataError, match=r"several corpora.*test_texts\.txt, train_texts\.txt"):
        detect_format(tmp_path)
    assert len(list(read_docs(tmp_path / "test"))) == 1


def test_an_unknown_file_is_described_with_what_to_give(tmp_path: Path) -> None:
    path = tmp_path / "novel.txt"
    path.write_text("Call me Ishmael. Some years ago\n")
    with pytest.raises(DataError, match="begins with 'Call me Ishmael") as caught:
        detect_format(path)
    assert "a table with a line of column names (CSV, TSV, Parquet)" in caught.value.hint
    assert f"ontodex convert {path} OUT.jsonl --from FORMAT" in caught.value.hint
    with pytest.raises(DataError, match="no such file"):
        detect_format(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.jsonl.gz", "jsonl"),
        ("a.csv", "csv"),
        ("X.trn.npz", "pecos-npz"),
        ("train_texts.txt.xz", "attentionxml"),
        ("folder", "corpus"),
    ],
)
def test_the_name_of_a_target_decides_its_format(name: str, format: str) -> None:
    assert infer_format(Path(name)) == format


def test_a_name_of_many_formats_is_an_error() -> None:
    with pytest.raises(ConfigError, match="does not say which format"):
        infer_format(Path("train.txt"))


def test_the_path_may_be_a_string(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("__label__fish trout\n")
    assert detect_format(str(tmp_path / "a.txt")) == "fasttext"
