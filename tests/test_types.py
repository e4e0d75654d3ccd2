from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.types import Corpus, Doc, LabelSpace, Ontology, Ranking

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


# ------------------------------------------------------------------------------------- label space


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


# ----------------------------------------------------------------------------------------- ranking


def test_ties_are_ordered_by_column_and_padding_comes_last():
    ranking = Ranking.top(np.array([[0.5, 0.9, 0.5]]), k=4)
    assert ranking.columns.tolist() == [[1, 0, 2, -1]]
    assert ranking.probabilities[0] == pytest.approx([0.9, 0.5, 0.5, 0])


def test_top_of_zero_labels_is_all_padding():
    ranking = Ranking.top(np.empty((2, 0)), k=3)
    assert ranking.columns.tolist() == [[-1] * 3] * 2


def test_a_sparse_score_matrix_ranks_its_stored_entries():
    scores = csr_array(np.array([[0, 0.2, 0.7], [0, 0, 0], [0.1, 0, 0]]))
    assert Ranking.of_sparse(scores, 2).columns.tolist() == [[2, 1], [-1, -1], [0, -1]]


def test_scores_and_of_sparse_are_inverse():
    ranking = Ranking.top(np.array([[0.5, 0.9, 0.5], [0.25, 0.5, 0.125]]), k=2)
    back = Ranking.of_sparse(ranking.scores(3), 2)
    assert back.columns.tolist() == ranking.columns.tolist()


def test_keeping_closes_up_the_gaps():
    ranking = Ranking.top(np.array([[0.9, 0.8, 0.7]]), k=3)
    kept = ranking.keep(np.array([[True, False, True]]))
    assert kept.columns.tolist() == [[0, 2, -1]]


def test_joined_parts_are_the_whole():
    whole = Ranking.top(np.random.default_rng(0).random((5, 8)), k=3)
    parts = [whole.take(np.arange(2)), whole.take(np.arange(2, 5))]
    assert np.array_equal(Ranking.join(parts, 3).columns, whole.columns)
    assert len(Ranking.join([], 3)) == 0


@pytest.mark.parametrize(
    ("columns", "scores", "complaint"),
    [
        ([[0, 1]], [[0.1, 0.2]], "fall along a row"),
        ([[0, 1]], [[1.2, 0.2]], r"in \[0, 1\]"),
        ([[0, 1]], [[np.nan, 0.2]], r"in \[0, 1\]"),
        ([[-1, 1]], [[0.2, 0.2]], "padding"),
        ([[0]], [[0.2, 0.2]], "agree"),
    ],
)
def test_a_ranking_that_breaks_its_promise_cannot_be_made(columns, scores, complaint):
    with pytest.raises(ValueError, match=complaint):
        Ranking(np.array(columns, np.int32), np.array(scores, np.float32))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 6), st.integers(1, 9), st.integers(0, 12), st.integers(0, 2**31))
def test_top_equals_sorting_everything(n, width, k, seed):
    scores = np.random.default_rng(seed).integers(0, 5, (n, width)) / 8
    ranking = Ranking.top(scores, k)
    for row in range(n):
        values = sorted(scores[row], reverse=True)[:k]
        kept = ranking.columns[row] >= 0
        assert ranking.probabilities[row][kept].tolist() == values
        assert len(set(ranking.columns[row][kept])) == len(values)


# ---------------------------------------------------------------------------------------- ontology


def diamond() -> Ontology:
    """root <- left, right <- leaf, and a far way: root <- left <- middle <- leaf2."""
    ids = ("root", "left", "right", "leaf", "middle", "leaf2")
    edges = [(1, 0), (2, 0), (3, 1), (3, 2), (4, 1), (5, 4), (5, 2)]
    rows, columns = zip(*edges, strict=True)
    parents = csr_array((np.ones(len(edges), np.int8), (rows, columns)), shape=(6, 6))
    names = {
        "en": ("Root", "Left", "", "Leaf", "Middle", "Leaf 2"),
        "de": ("",) * 2 + ("Rechts",) + ("",) * 3,
    }
    return Ontology(ids, names, parents, {"en": ((), ("L",), (), (), (), ())})


def test_the_path_is_a_shortest_one_from_a_root():
    assert diamond().path("leaf2") == ["root", "right", "leaf2"]
    assert diamond().path("root") == ["root"]


def test_a_name_falls_back_to_another_language_and_then_to_the_id():
    ontology = diamond()
    assert ontology.name("right") == "Rechts"
    assert ontology.name("left", "de") == "Left"
    assert Ontology(("x",), {}, csr_array((1, 1))).name("x") == "x"


def test_neighbours_in_the_graph():
    ontology = diamond()
    assert ontology.parents_of("leaf") == ["left", "right"]
    assert ontology.children_of("left") == ["leaf", "middle"]
    assert ontology.synonyms_of("left") == ("L",)
    assert "leaf" in ontology
    assert "twig" not in ontology
