from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.types import Corpus, Doc, LabelSpace, Ontology

DOCS = [
    Doc("a", {"title": "Trout", "abstract": "in the stream"}, ("fish",), ("L2", "L1"), {"year": 1}),
    Doc("b", {"title": "Oak"}, (), ("L2",)),
    Doc("c", {"title": ""}, ("x", "y"), ()),
]


def test_trained_labels_come_first_and_untrained_concepts_after_them():
    ontology = Ontology(("L0", "L2", "old"), {}, csr_array((3, 3)), deprecated=frozenset({"old"}))
    labels = LabelSpace.of(Corpus.of(DOCS), ontology)
    assert labels.ids == ("L1", "L2", "L0")
    assert labels.frequency.tolist() == [1, 2, 0]
    assert labels.n_seen == 2


def test_rare_labels_can_be_left_out_and_then_count_as_misses():
    labels = LabelSpace.of(Corpus.of(DOCS), min_count=2)
    assert labels.ids == ("L2",)
    gold = labels.gold(Corpus.of(DOCS))
    assert gold.shape == (3, 2)
    assert gold.toarray().tolist() == [[1, 1], [1, 0], [0, 0]]


def test_a_repeated_label_counts_once():
    corpus = Corpus.of([Doc("a", {"t": ""}, labels=("L", "L"))])
    labels = LabelSpace.of(corpus)
    assert labels.frequency.tolist() == [1]
    assert labels.gold(corpus).toarray().tolist() == [[1]]


def test_propensity_by_hand():
    labels = LabelSpace(("a",), np.array([3]), n_docs=100)
    c = (np.log(100) - 1) * 2.5**0.55
    assert labels.propensity() == pytest.approx([1 / (1 + c * 4.5**-0.55)])


def test_more_documents_add_counts_and_new_labels_at_the_end():
    labels = LabelSpace.of(Corpus.of(DOCS)).extend(
        Corpus.of([Doc("d", {"t": ""}, labels=("L2", "L0"))])
    )
    assert labels.ids == ("L1", "L2", "L0")
    assert labels.frequency.tolist() == [1, 3, 1]
    assert labels.n_docs == 4
