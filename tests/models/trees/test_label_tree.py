from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.features.tfidf import normalise_rows
from ontodex.models.trees import label_tree, two_means
from ontodex.models.trees.label_tree import (
    LabelTree,
    build_label_vectors,
    build_tree,
    flatten,
)


def plant_groups(n_groups: int, size: int, seed: int = 0) -> tuple[csr_array, np.ndarray]:
    """Return the vectors and groups of labels; those of a group share most of their words."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(n_groups), size))
    shared = 10 * group[:, None] + rng.integers(0, 10, (len(group), 8))
    noise = 10 * n_groups + rng.integers(0, 50, (len(group), 2))
    words = np.concatenate([shared, noise], axis=1)
    rows = np.repeat(np.arange(len(group)), words.shape[1])
    ones = np.ones(words.size, dtype=np.float32)
    return normalise_rows(csr_array(csr_array((ones, (rows, words.ravel()))))), group


def make_random_vectors(n: int, seed: int) -> csr_array:
    """Return label vectors, some of them empty, some equal."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n, 6)) * (rng.random((n, 6)) < 0.4)
    dense[rng.random(n) < 0.2] = 0
    dense[rng.random(n) < 0.2] = [1, 0, 0, 0, 0, 0]
    return normalise_rows(csr_array(dense.astype(np.float32)))


@settings(deadline=None, max_examples=50)
@given(
    n=st.integers(1, 300),
    cluster=st.integers(2, 20),
    step=st.integers(1, 4),
    height=st.integers(1, 5),
    seed=st.integers(0, 5),
)
def test_every_tree_is_balanced_and_holds_each_label_once(n, cluster, step, height, seed):
    tree = build_tree(
        make_random_vectors(n, seed), seed=seed, cluster=cluster, children=2**step, height=height
    )
    depth = label_tree.count_halvings(n, cluster)
    assert sorted(tree.order.tolist()) == list(range(n))
    assert tree.height == min(height, -(-depth // step))
    assert tree.count_nodes(0) == 1
    for level in range(tree.height + 1):
        sizes = np.bincount(tree.find_nodes(level), minlength=tree.count_nodes(level))
        assert sizes.max() - sizes.min() <= 1
    assert sizes.max() <= cluster or tree.height == 0
    assert all(set(np.diff(first)) == {2**step} for first in tree.first[1:-1])
    # One parent each, all at one depth: a node's labels are those of its children.
    for level in range(tree.height):
        parent = np.repeat(np.arange(tree.count_nodes(level)), np.diff(tree.first[level]))
        np.testing.assert_array_equal(parent[tree.find_nodes(level + 1)], tree.find_nodes(level))


def test_the_height_is_chosen_by_the_number_of_labels():
    few = label_tree.flatten_to_height(label_tree.build_binary_tree(np.arange(49_999), 12), 8, 0)
    many = label_tree.flatten_to_height(label_tree.build_binary_tree(np.arange(50_000), 12), 8, 0)
    assert [few.count_nodes(level) for level in range(4)] == [1, 512, 4096, 49_999]
    assert [many.count_nodes(level) for level in range(5)] == [1, 64, 512, 4096, 50_000]


def test_the_least_height_is_that_of_the_shallowest_tree_with_so_few_nodes_at_the_top():
    binary = label_tree.build_binary_tree(np.arange(50_000), 12)
    for most, expected in [(4096, 1), (4095, 2), (512, 2), (511, 3), (64, 3)]:
        height = label_tree.compute_height(50_000, cluster=16, children=8, most=most)
        assert height == expected
        assert flatten(binary, step=3, height=height).count_nodes(1) <= most


def test_few_labels_hang_below_the_root():
    tree = build_tree(make_random_vectors(5, 0), seed=0, cluster=16)
    assert tree.height == 0
    assert tree.count_nodes(0) == 1
    assert tree.count_nodes(1) == 5


def test_a_saved_tree_is_loaded_as_it_was(tmp_path):
    tree = build_tree(make_random_vectors(40, 0), seed=0, cluster=4, children=2, height=3)
    tree.save(tmp_path)
    again = LabelTree.load(tmp_path, 40)
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
    tree = label_tree.build_binary_tree(np.arange(16), 3)
    for c, height in [(1, 1), (1, 2), (1, 3), (2, 2)]:
        expected = algorithm_1(parent, leaves, c, height)
        flat = flatten(tree, step=c, height=height)
        for label, leaf in enumerate(leaves):
            path = [leaf]
            while path[-1] != "r":
                path.append(expected[path[-1]])
            assert flat.height == len(path) - 2
            for level, node in enumerate(reversed(path[1:])):
                number = int("0" + node[1:], 2)
                assert flat.find_nodes(level)[label] == number


def test_label_vectors_by_hand():
    features = csr_array(np.array([[3, 0], [0, 4], [1, 0]], dtype=np.float32))
    gold = csr_array(np.array([[1, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=np.int8))
    # Label 0 has documents 0 and 1: (3, 4) / 5; labels 1 and 2 one document each.
    expected = [[0.6, 0.8], [1, 0], [1, 0]]
    np.testing.assert_allclose(build_label_vectors(features, gold).toarray(), expected, rtol=1e-6)


def test_two_groups_are_found():
    vectors, group = plant_groups(2, 12)
    tree = build_tree(vectors, seed=0, cluster=12)
    assert len(set(zip(tree.find_nodes(1), group, strict=True))) == 2


def test_planted_groups_come_out_nearly_as_tight_as_they_are():
    vectors, group = plant_groups(32, 10)
    tree = build_tree(vectors, seed=0, cluster=10, height=1)
    found = measure_cohesion(vectors, tree.find_nodes(1))
    by_chance = measure_cohesion(vectors, np.sort(group))
    true_cohesion = measure_cohesion(vectors, group)
    assert found > 0.85 * true_cohesion > 1.5 * by_chance


def measure_cohesion(vectors: csr_array, nodes: np.ndarray) -> float:
    """Return the mean cosine of labels with the centre of their node."""
    dense, cosines = vectors.toarray(), []
    for node in np.unique(nodes):
        own = dense[nodes == node]
        centre = own.mean(axis=0)
        cosines += list(own @ centre / np.linalg.norm(centre))
    return float(np.mean(cosines))


def test_the_tree_does_not_depend_on_the_division_of_the_work(monkeypatch):
    vectors, _ = plant_groups(20, 9, seed=2)
    whole = build_tree(vectors, seed=4, cluster=4)
    monkeypatch.setattr(two_means, "PART_VALUES", 100)
    parts = build_tree(vectors, seed=4, cluster=4)
    np.testing.assert_array_equal(whole.order, parts.order)
    assert not np.array_equal(whole.order, build_tree(vectors, seed=5, cluster=4).order)
