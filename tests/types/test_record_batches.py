from __future__ import annotations

import pytest

from ontodex.errors import DataError
from ontodex.types import Doc, record_batches
from ontodex.types.record_batches import ContentCheck, make_batches, unpack_batch


def test_batches_are_full_and_give_the_documents_back(monkeypatch):
    monkeypatch.setattr(record_batches, "BATCH_DOCS", 2)
    docs = [Doc(str(i), {"text": f"word{i}"}, ("k",), ("L",), {"year": i}) for i in range(5)]
    batches = list(make_batches(docs, ContentCheck(0)))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert [doc for batch in batches for doc in unpack_batch(batch, "text")] == docs


def test_a_batch_ends_early_when_its_texts_are_large(monkeypatch):
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 10)
    docs = [Doc(str(i), {"text": "x" * 8}) for i in range(5)]
    assert [batch.num_rows for batch in make_batches(docs, ContentCheck(0))] == [2, 2, 1]


def test_dense_documents_must_have_the_same_number_of_features():
    content = ContentCheck(0)
    content.check(Doc("a", features=(1.0, 2.0)))
    with pytest.raises(DataError, match="document 'b' has 1 features, not 2"):
        content.check(Doc("b", features=(1.0,)))


def test_the_highest_sparse_feature_decides_the_number_unless_more_are_given():
    for given, expected in ((0, 8), (20, 20)):
        content = ContentCheck(given)
        content.check(Doc("a", features={7: 1.0}))
        assert content.n_features == expected
