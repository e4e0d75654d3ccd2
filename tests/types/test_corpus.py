from __future__ import annotations

import numpy as np
import pytest

from ontodex.errors import DataError
from ontodex.types import Corpus, Doc

DOCS = [
    Doc("a", {"title": "Trout", "abstract": "in the stream"}, ("fish",), ("L2", "L1"), {"year": 1}),
    Doc("b", {"title": "Oak"}, (), ("L2",)),
    Doc("c", {"title": ""}, ("x", "y"), ()),
]


def test_a_corpus_gives_back_its_documents_from_memory_and_from_disk(tmp_path):
    assert list(Corpus.of(DOCS)) == DOCS
    assert list(Corpus.write(iter(DOCS), tmp_path / "c")) == DOCS
    assert list(Corpus.open(tmp_path / "c")) == DOCS


def test_text_is_all_fields_in_order_one_a_line():
    assert list(Corpus.of(DOCS).texts()) == ["Trout\nin the stream", "Oak", ""]
    assert [doc.text for doc in DOCS] == list(Corpus.of(DOCS).texts())


def test_a_selection_keeps_the_corpus_order_and_can_be_selected_again():
    corpus = Corpus.of(DOCS)
    chosen = corpus.select([2, 0])
    assert [doc.id for doc in chosen] == chosen.ids == ["a", "c"]
    assert list(chosen.texts()) == ["Trout\nin the stream", ""]
    assert chosen.select([1]).ids == ["c"]
    assert corpus.select(np.array([False, True, False])).ids == ["b"]
    assert corpus[-1].id == "c"


def test_selections_reach_across_batches(tmp_path):
    many = [Doc(str(i), {"text": f"word{i}"}, labels=(f"L{i % 7}",)) for i in range(2_500)]
    corpus = Corpus.write(iter(many), tmp_path / "c")
    rows = [0, 999, 1000, 1001, 2499]
    assert corpus.select(rows).ids == [str(i) for i in rows]
    assert list(corpus.select(rows).texts()) == [f"word{i}" for i in rows]


def test_equal_content_has_an_equal_key_wherever_it_lies(tmp_path):
    memory = Corpus.of(DOCS)
    assert memory.key == Corpus.write(iter(DOCS), tmp_path / "c").key
    assert memory.key != Corpus.of(DOCS[:2]).key
    assert memory.select([0, 1]).key != memory.key


def test_sparse_and_dense_features_come_back_as_matrices():
    sparse = Corpus.of([Doc("1", features={3: 1.5, 0: 2.0}), Doc("2", features={})], n_features=6)
    assert sparse.features().toarray().tolist() == [[2, 0, 0, 1.5, 0, 0], [0] * 6]
    assert sparse.select([1]).features().toarray().tolist() == [[0] * 6]
    dense = Corpus.of([Doc("1", features=(1.0, 2.0)), Doc("2", features=(3.0, 4.0))])
    assert dense.features().tolist() == [[1, 2], [3, 4]]
    assert dense.select([1]).features().tolist() == [[3, 4]]


def test_documents_of_two_kinds_do_not_make_a_corpus():
    with pytest.raises(DataError, match="'b' has text content but 'a' has sparse"):
        Corpus.of([Doc("a", features={0: 1.0}), Doc("b", {"text": "x"})])


def test_a_half_written_corpus_leaves_nothing_behind(tmp_path):
    def broken():
        yield DOCS[0]
        raise DataError("line 2 is bad")

    with pytest.raises(DataError, match="line 2"):
        Corpus.write(broken(), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_corpus_folder_is_a_data_error(tmp_path):
    Corpus.write(iter(DOCS), tmp_path / "c")
    arrow = tmp_path / "c" / "docs.arrow"
    arrow.write_bytes(arrow.read_bytes()[:100])
    with pytest.raises(DataError, match="not a readable corpus folder"):
        Corpus.open(tmp_path / "c")


def test_paths_may_be_strings(tmp_path):
    assert Corpus.write(iter(DOCS), str(tmp_path / "c")).ids == Corpus.open(str(tmp_path / "c")).ids


def test_a_copy_without_text_has_the_key_the_labels_and_no_text(tmp_path):
    corpus = Corpus.of(DOCS)
    copy = corpus.write_without_text(tmp_path / "copy")
    assert copy.key == corpus.key
    assert list(copy.labels()) == list(corpus.labels())
    with pytest.raises(DataError, match="prepared without its text"):
        next(copy.texts())


def test_other_labels_give_another_key_and_the_same_whole():
    corpus = Corpus.of(DOCS)
    changed = corpus.with_labels([["X"], [], ["Y"]])
    assert [doc.labels for doc in changed] == [("X",), (), ("Y",)]
    assert changed.key != corpus.key == changed.whole.key
    assert changed.select([2])[0].labels == ("Y",)
    with pytest.raises(ValueError, match="1 label lists for 3 documents"):
        corpus.with_labels([[]])
