from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.features.tfidf import unit_rows
from ontodex.models import label_tree
from ontodex.models.label_tree import LabelTree, build, flatten, label_vectors, of_ontology
from ontodex.ontology.graph import Concept
from ontodex.ontology.graph import build as build_ontology
from ontodex.types import Corpus, Doc, LabelSpace


def planted(n_groups: int, size: int, seed: int = 0) -> tuple[csr_array, np.ndarray]:
    """Labels in groups; those of a group share most of their words. In a shuffled order."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(n_groups), size))
    shared = 10 * group[:, None] + rng.integers(0, 10, (len(group), 8))
    noise = 10 * n_groups + rng.integers(0, 50, (len(group), 2))
    words = np.concatenate([shared, noise], axis=1)
    rows = np.repeat(np.arange(len(group)), words.shape[1])
    ones = np.ones(words.size, dtype=np.float32)
    return unit_rows(csr_array(csr_array((ones, (rows, words.ravel()))))), group


def random_vectors(n: int, seed: int) -> csr_array:
    """Some of them empty, some equal."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n, 6)) * (rng.random((n, 6)) < 0.4)
    dense[rng.random(n) < 0.2] = 0
    dense[rng.random(n) < 0.2] = [1, 0, 0, 0, 0, 0]
    return unit_rows(csr_array(dense.astype(np.float32)))


# ------------------------------------------------------------------------------- what a tree is


@settings(deadline=None, max_examples=50)
@given(
    n=st.integers(1, 300),
    cluster=st.integers(2, 20),
    step=st.integers(1, 4),
    height=st.integers(1, 5),
    seed=st.integers(0, 5),
)
def test_every_tree_is_balanced_and_holds_each_label_once(n, cluster, step, height, seed):
    tree = build(
        random_vectors(n, seed), seed=seed, cluster=cluster, children=2**step, height=height
    )
    depth = label_tree.binary_depth(n, cluster)
    assert sorted(tree.order.tolist()) == list(range(n))
    assert tree.height == min(height, -(-depth // step))
    assert tree.n_nodes(0) == 1
    for level in range(tree.height + 1):
        sizes = np.bincount(tree.node_of(level), minlength=tree.n_nodes(level))
        assert sizes.max() - sizes.min() <= 1
    assert sizes.max() <= cluster or tree.height == 0
    assert all(set(np.diff(first)) == {2**step} for first in tree.first[1:-1])
    # One parent each, all at one depth: a node's labels are those of its children.
    for level in range(tree.height):
        parent = np.repeat(np.arange(tree.n_nodes(level)), np.diff(tree.first[level]))
        np.testing.assert_array_equal(parent[tree.node_of(level + 1)], tree.node_of(level))


def test_the_height_is_chosen_by_the_number_of_labels():
    few = label_tree._shallow(label_tree._binary(np.arange(49_999), 12), 8, 0)
    many = label_tree._shallow(label_tree._binary(np.arange(50_000), 12), 8, 0)
    assert [few.n_nodes(level) for level in range(4)] == [1, 512, 4096, 49_999]
    assert [many.n_nodes(level) for level in range(5)] == [1, 64, 512, 4096, 50_000]


def test_the_least_height_is_that_of_the_shallowest_tree_with_so_few_nodes_at_the_top():
    binary = label_tree._binary(np.arange(50_000), 12)
    for most, expected in [(4096, 1), (4095, 2), (512, 2), (511, 3), (64, 3)]:
        height = label_tree.least_height(50_000, cluster=16, children=8, most=most)
        assert height == expected
        assert flatten(binary, step=3, height=height).n_nodes(1) <= most


def test_few_labels_hang_below_the_root():
    tree = build(random_vectors(5, 0), seed=0, cluster=16)
    assert tree.height == 0
    assert tree.n_nodes(0) == 1
    assert tree.n_nodes(1) == 5


def test_arrays_give_the_tree_back():
    tree = build(random_vectors(40, 0), seed=0, cluster=4, children=2, height=3)
    again = LabelTree.of_arrays(tree.arrays())
    np.testing.assert_array_equal(again.order, tree.order)
    assert [list(first) for first in again.first] == [list(first) for first in tree.first]


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ([0, 0, 1], [[0, 3]]),  # a label twice
        ([0, 1, 2], [[0, 2]]),  # a label below no node
        ([0, 1, 2], [[0, 2], [0, 0, 3]]),  # a node without labels
        ([0, 1, 2], [[0, 1, 2], [0, 1, 3]]),  # two roots
    ],
)
def test_a_damaged_tree_is_refused(order, first):
    with pytest.raises(RunError, match="label tree"):
        LabelTree(np.array(order), tuple(np.array(level) for level in first))


# ------------------------------------------------------------------------------------ Algorithm 1


def algorithm_1(parent: dict[str, str], leaves: list[str], c: int, height: int) -> dict[str, str]:
    """As printed: nodes by name, Pa(n') rewritten level by level; only nodes in use are kept."""

    def above(node: str) -> list[str]:
        return [parent[node], *above(parent[node])] if node in parent else []

    new = {leaf: parent[leaf] for leaf in leaves}
    s = sorted({parent[leaf] for leaf in leaves})
    for level in range(1, height + 1):
        upper = {(above(n)[:c] or [n])[-1] for n in s} if level < height else {"r"}
        for n in upper:
            for lower in s:
                if n in above(lower):
                    new[lower] = n
        s = sorted(upper)
    return new


def test_algorithm_1_on_a_hand_made_tree():
    """Sixteen labels, two below each of r0 ... r7's parents: r - rX - rXX - rXXX - labels."""
    inner = ["0", "1", "00", "01", "10", "11"] + [f"{i:03b}" for i in range(8)]
    parent = {f"r{bits}": f"r{bits[:-1]}" for bits in inner}
    leaves = [f"{bits}{side}" for bits in (f"r{i:03b}" for i in range(8)) for side in "ab"]
    parent |= {leaf: leaf[:-1] for leaf in leaves}
    tree = label_tree._binary(np.arange(16), 3)
    for c, height in [(1, 1), (1, 2), (1, 3), (2, 2)]:
        expected = algorithm_1(parent, leaves, c, height)
        flat = flatten(tree, step=c, height=height)
        for label, leaf in enumerate(leaves):
            way = [leaf]
            while way[-1] != "r":
                way.append(expected[way[-1]])
            assert flat.height == len(way) - 2
            for level, node in enumerate(reversed(way[1:])):
                number = int("0" + node[1:], 2)
                assert flat.node_of(level)[label] == number


# --------------------------------------------------------------------------------------- clusters


def test_label_vectors_by_hand():
    features = csr_array(np.array([[3, 0], [0, 4], [1, 0]], dtype=np.float32))
    gold = csr_array(np.array([[1, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=np.int8))
    # Label 0 has documents 0 and 1: (3, 4) / 5; labels 1 and 2 one document each.
    expected = [[0.6, 0.8], [1, 0], [1, 0]]
    np.testing.assert_allclose(label_vectors(features, gold).toarray(), expected, rtol=1e-6)


def test_two_groups_are_found():
    vectors, group = planted(2, 12)
    tree = build(vectors, seed=0, cluster=12)
    assert len(set(zip(tree.node_of(1), group, strict=True))) == 2


def test_planted_groups_come_out_nearly_as_tight_as_they_are():
    vectors, group = planted(32, 10)
    tree = build(vectors, seed=0, cluster=10, height=1)
    found = label_tree.similarity(vectors, tree.node_of(1))
    by_chance = label_tree.similarity(vectors, np.sort(group))
    planted_ = label_tree.similarity(vectors, group)
    assert found > 0.85 * planted_ > 1.5 * by_chance


def test_tightness_by_hand():
    vectors = csr_array(np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32))
    # Nodes {0, 1} and {2}: their sums have the lengths sqrt 2 and 1.
    assert label_tree.similarity(vectors, np.array([0, 0, 1])) == pytest.approx((2**0.5 + 1) / 3)


def two_means_by_loops(vectors: np.ndarray, one: int, other: int) -> set[int]:
    """Balanced spherical 2-means of one cluster, round by round: the first half."""
    n = len(vectors)
    scores = vectors @ (vectors[one] - vectors[other])
    best, before = set(np.argsort(-scores, kind="stable")[: (n + 1) // 2].tolist()), 0.0
    for _ in range(label_tree.ROUNDS):
        sums = [sum(vectors[i] for i in range(n) if (i in best) is side) for side in (True, False)]
        lengths = [np.linalg.norm(s) for s in sums]
        if sum(lengths) - before <= label_tree.LEAST_GAIN * n:
            break
        before = sum(lengths)
        scores = vectors @ (sums[0] / lengths[0] - sums[1] / lengths[1])
        best = set(np.argsort(-scores, kind="stable")[: (n + 1) // 2].tolist())
    return best


def test_all_clusters_of_a_level_are_split_as_each_would_be_alone():
    vectors, _ = planted(6, 7, seed=3)
    dense = vectors.toarray()
    starts = np.array([0, 10, 21, 31, 42])
    chance = np.random.default_rng(1).random((4, 2))
    whole = label_tree._Clusters.of(vectors)
    halves = label_tree._Clusters(whole.labels, *own_columns(vectors, starts), starts)
    first = halves.two_means(chance)
    for number, (start, end) in enumerate(pairwise(starts)):
        size = end - start
        one = int(chance[number, 0] * size)
        other = (one + 1 + int(chance[number, 1] * (size - 1))) % size
        expected = two_means_by_loops(dense[start:end], one, other)
        assert set(np.flatnonzero(first[start:end])) == expected


def own_columns(vectors: csr_array, starts: np.ndarray) -> tuple[csr_array, np.ndarray]:
    """The matrix with a copy of all columns for each cluster, and the cluster of a column."""
    width = vectors.shape[1]
    cluster = np.searchsorted(starts, np.arange(vectors.shape[0]), side="right") - 1
    shift = np.repeat(cluster * width, np.diff(vectors.indptr))
    shape = (vectors.shape[0], width * (len(starts) - 1))
    spread = csr_array((vectors.data, vectors.indices + shift, vectors.indptr), shape=shape)
    return spread, np.repeat(np.arange(len(starts) - 1), width)


def test_the_tree_does_not_depend_on_how_the_work_is_shared_out(monkeypatch):
    vectors, _ = planted(20, 9, seed=2)
    whole = build(vectors, seed=4, cluster=4)
    monkeypatch.setattr(label_tree, "PART_VALUES", 100)
    parts = build(vectors, seed=4, cluster=4)
    np.testing.assert_array_equal(whole.order, parts.order)
    assert not np.array_equal(whole.order, build(vectors, seed=5, cluster=4).order)


# --------------------------------------------------------------------------------------- ontology


def test_the_ontology_as_a_tree_keeps_neighbours_together():
    """Two tops with four concepts each, named so that the order of columns mixes them."""
    names = {"top1": "aceg", "top2": "bdfh"}
    concepts = [Concept(top) for top in names]
    concepts += [Concept(c, parents=(top,)) for top, below in names.items() for c in below]
    train = Corpus.of([Doc(c, {"t": "x"}, labels=(c,)) for c in "abcdefgh"])
    labels = LabelSpace.of(train, build_ontology(concepts))
    tree = of_ontology(labels, cluster=4)
    assert [labels.ids[column] for column in tree.order] == list("acegbdfh")
    assert tree.node_of(1).tolist() == [0, 1] * 4


def test_a_label_with_two_parents_or_none_has_one_place():
    concepts = [Concept("r"), Concept("m", parents=("r",)), Concept("x", parents=("m", "r"))]
    docs = [Doc(c, {"t": "x"}, labels=(c,)) for c in ("outside", "m", "x", "r")]
    labels = LabelSpace.of(Corpus.of(docs), build_ontology(concepts))
    tree = of_ontology(labels, cluster=2)
    assert [labels.ids[column] for column in tree.order] == ["r", "m", "x", "outside"]


def test_a_tree_of_an_ontology_that_is_not_there_is_an_error_with_a_way_out():
    labels = LabelSpace.of(Corpus.of([Doc("1", {"t": "x"}, labels=("a",))]))
    with pytest.raises(RunError, match="needs an ontology"):
        of_ontology(labels)
