from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.convert import convert
from ontodex.errors import DataError, OntodexError
from ontodex.ontology import read_ontology
from ontodex.read import open_corpus, read_docs
from ontodex.sample import ontology_path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text(
        '{"id": "1", "title": "Trout", "labels": ["a", "b"]}\n{"id": "2", "text": "x"}\n'
    )
    return path


def test_a_corpus_becomes_another_format_by_the_name_of_the_target(corpus, tmp_path):
    assert convert(corpus, tmp_path / "out.csv.gz") == (2, "documents")
    assert [doc.labels for doc in read_docs(tmp_path / "out.csv.gz")] == [("a", "b"), ()]


def test_an_ontology_is_known_for_one(tmp_path):
    count, what = convert(ontology_path(), tmp_path / "out.obo")
    assert what == "concepts"
    assert count == len(read_ontology(tmp_path / "out.obo")) > 150


def test_a_format_that_names_both_is_settled_by_content(tmp_path):
    vocabulary = tmp_path / "v.tsv"
    vocabulary.write_text("<http://e/1>\tCats\n<http://e/2>\tDogs\n")
    assert convert(vocabulary, tmp_path / "v.json", from_format="annif-tsv") == (2, "concepts")
    texts = tmp_path / "t.tsv"
    texts.write_text("cats purr\t<http://e/1>\ndogs bark\t<http://e/2>\n")
    assert convert(texts, tmp_path / "t.jsonl", from_format="annif-tsv") == (2, "documents")


def test_the_width_of_features_is_kept_when_the_last_ones_are_unused(tmp_path):
    (tmp_path / "in.txt").write_text("2 9 3\n0 1:1 2:0.5\n2 0:1\n")
    convert(tmp_path / "in.txt", tmp_path / "out", from_format="xmc")
    assert open_corpus(tmp_path / "out").n_features == 9


def test_a_missing_or_unknown_file_is_a_sentence(tmp_path):
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 9)
    for name in ("nothing", "noise.bin"):
        with pytest.raises(OntodexError):
            convert(tmp_path / name, tmp_path / "out.jsonl")


def test_a_format_that_cannot_be_told_is_converted_as_the_hint_says(tmp_path):
    path = tmp_path / "odd"
    path.write_text("no label here\n" * 100 + "__label__fish trout\n" * 3)
    with pytest.raises(DataError, match="not a corpus format that is known") as met:
        open_corpus(path)  # as `train`, `evaluate` and `index` do, which take no format
    assert f"ontodex convert {path} OUT.jsonl --from FORMAT" in met.value.hint
    convert(path, tmp_path / "out.jsonl", from_format="fasttext")
    assert list(open_corpus(tmp_path / "out.jsonl").labels())[-1] == ["fish"]
