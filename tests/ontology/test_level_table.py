"""Labels and documents at each level, counted by hand."""

from __future__ import annotations

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.level_table import format_levels, tabulate_levels
from ontodex.types import Corpus, Doc

ONTOLOGY = build_ontology(
    [Concept("top"), Concept("a", parents=["top"]), Concept("b", parents=["top"])]
)


def test_each_level_has_its_labels_and_the_documents_with_one():
    labels = [("top", "a", "b"), ("a",), ("top",), ()]
    docs = [Doc(str(i), {"text": "x"}, labels=own) for i, own in enumerate(labels)]
    rows = tabulate_levels(Corpus.of(docs), ONTOLOGY)
    found = [(r.level, r.labels, r.documents, r.labels_a_document) for r in rows]
    assert found == [(1, 1, 2, 1.0), (2, 2, 2, 1.5)]
    assert "    2          2          2               1.50" in format_levels(rows)


def test_a_corpus_without_labels_has_no_levels():
    assert tabulate_levels(Corpus.of([Doc("1", {"text": "x"})]), ONTOLOGY) == []
