"""Levels and categories by hand-made cases; each comment is the tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.levels import (
    REST,
    UNPLACED,
    assign_levels,
    choose_max_level,
    compute_label_ancestors,
    compute_label_levels,
    lift,
    map_to_labels,
)
from ontodex.types import Corpus, Doc, LabelSpace


def tree(parents, **options):
    return build_ontology(
        (Concept(label, {"en": label.upper()}, parents=above) for label, above in parents.items()),
        **options,
    )


def level_of(ontology, levels):
    return dict(zip(ontology.ids, levels.level.tolist(), strict=True))


def categories_of(ontology, levels):
    return {
        label: {levels.categories[g] for g in levels.membership[[i]].nonzero()[1]}
        for i, label in enumerate(ontology.ids)
    }


#  a          b
#  ├ a1       └ b1
#  │ └ a2 ────────┘ (two parents: a1 and b1 ... and b itself for `short`)
DIAMOND = {
    "a": [], "b": [], "a1": ["a"], "b1": ["b"], "a2": ["a1", "b1"], "short": ["a2", "b"],
}  # fmt: skip


def test_the_shallowest_position_counts_and_max_takes_the_deepest():
    ontology = tree(DIAMOND)
    assert level_of(ontology, assign_levels(ontology)) == {
        "a": 1, "b": 1, "a1": 2, "b1": 2, "a2": 3, "short": 2,
    }  # fmt: skip
    assert level_of(ontology, assign_levels(ontology, rule="max"))["short"] == 4


def test_deeper_levels_fold_into_the_last():
    ontology = tree(DIAMOND)
    levels = assign_levels(ontology, max_level=2)
    assert levels.n_levels == 2
    assert levels.level.tolist() == [1, 1, 2, 2, 2, 2]
    assert levels.at(1).tolist() == [0, 1]
    with pytest.raises(ValueError, match="at least 1"):
        assign_levels(ontology, max_level=0)


def test_a_concept_is_in_every_category_it_descends_from():
    ontology = tree(DIAMOND)
    levels = assign_levels(ontology)
    assert categories_of(ontology, levels) == {
        "a": {"A"}, "b": {"B"}, "a1": {"A"}, "b1": {"B"}, "a2": {"A", "B"}, "short": {"A", "B"},
    }  # fmt: skip


def test_the_largest_tops_are_categories_and_the_rest_is_one():
    # r0 has 1 child, r1 has 2, r2 has 3; with largest=2 r0 is left for the rest
    parents = {f"r{i}": [] for i in range(3)}
    parents |= {f"c{i}{j}": [f"r{i}"] for i in range(3) for j in range(i + 1)}
    ontology = tree(parents)
    levels = assign_levels(ontology, largest=2)
    assert levels.categories == ("R2", "R1", REST)
    assert categories_of(ontology, levels)["c00"] == {REST}
    assert categories_of(ontology, levels)["r0"] == {REST}


def test_tops_above_the_same_concepts_are_counted_with_all_of_them():
    tops = {f"t{i}": [] for i in range(40)}
    below = {"all": list(tops), **{f"b{i}": ["all"] for i in range(9)}}
    levels = assign_levels(tree({**tops, **below, "own": ["t7"]}))
    assert levels.categories == ("T7", *(f"T{i}" for i in range(15) if i != 7), REST)


def test_a_lone_root_gives_way_to_its_children():
    ontology = tree({"all": [], "x": ["all"], "y": ["all"], "x1": ["x"]})
    levels = assign_levels(ontology)
    assert levels.categories == ("X", "Y", REST)
    assert categories_of(ontology, levels) == {
        "all": {REST}, "x": {"X"}, "y": {"Y"}, "x1": {"X"},
    }  # fmt: skip
    assert level_of(ontology, levels)["all"] == 1  # levels are not touched by that


def test_concepts_without_any_neighbour_have_a_category_of_their_own():
    ontology = tree({"a": [], "a1": ["a"], "b": [], "b1": ["b"], "male": [], "female": []})
    levels = assign_levels(ontology)
    assert level_of(ontology, levels)["male"] == 1
    assert categories_of(ontology, levels)["male"] == {UNPLACED}
    assert categories_of(ontology, levels)["female"] == {UNPLACED}
    assert levels.categories[-1] == UNPLACED


def test_a_flat_list_is_one_level_and_one_category():
    ontology = tree({"a": [], "b": [], "c": []})
    levels = assign_levels(ontology)
    assert levels.categories == (UNPLACED,)
    assert levels.level.tolist() == [1, 1, 1]


def test_declared_groups_come_before_tops_and_reach_down():
    ontology = tree(
        DIAMOND | {"c": [], "c1": ["c"]}, categories={"Land": ["a1"], "Sea": ["b", "a1"]}
    )
    levels = assign_levels(ontology)
    assert levels.categories == ("Land", "Sea", REST)
    assert categories_of(ontology, levels) == {
        "a": {REST}, "b": {"Sea"}, "a1": {"Land", "Sea"}, "b1": {"Sea"},
        "a2": {"Land", "Sea"}, "short": {"Land", "Sea"}, "c": {REST}, "c1": {REST},
    }  # fmt: skip


def tops_by_definition(parents, largest):
    """The concepts that head a category, the largest first, and those left for the rest."""
    below = {a: {b for b in parents if a in ancestors_by_definition(parents, b)} for a in parents}
    tops = [label for label in parents if not parents[label] and below[label]]
    while len(tops) == 1 and below[tops[0]]:
        tops = [label for label in parents if tops[0] in parents[label]]
    tops.sort(key=lambda top: -len(below[top]))  # of equals, the first in the file
    return tops[:largest], tops[largest:]


def ancestors_by_definition(parents, label):
    return {
        a for parent in parents[label] for a in {parent, *ancestors_by_definition(parents, parent)}
    }


@st.composite
def graphs(draw):
    """Up to ten concepts in the order of the alphabet, each below some of those before it."""
    labels = "abcdefghij"[: draw(st.integers(1, 10))]
    parents = {"a": []}
    for i, label in enumerate(labels[1:], start=1):
        parents[label] = draw(st.lists(st.sampled_from(labels[:i]), unique=True, max_size=3))
    return parents


@settings(max_examples=200, deadline=None)
@given(graphs(), st.integers(1, 10), st.booleans())
def test_categories_of_any_graph_are_those_of_the_definition(parents, largest, declared):
    tops, others = tops_by_definition(parents, largest)
    heads = {top.upper(): {top} for top in tops} | ({REST: set(others)} if others else {})
    if declared:  # every second concept heads a group, and the first of all a second one
        heads = {label.upper(): {label} for label in list(parents)[::2]} | {"MORE": {"a"}}
    ontology = tree(parents, categories=heads if declared else None)
    expected = {}
    for label in parents:
        at_or_above = {label, *ancestors_by_definition(parents, label)}
        lonely = not parents[label] and not any(label in above for above in parents.values())
        found = {name for name, own in heads.items() if own & at_or_above}
        expected[label] = found or {UNPLACED if lonely else REST}
    levels = assign_levels(ontology, largest=largest)
    assert categories_of(ontology, levels) == expected
    used = set().union(*expected.values())
    assert levels.categories == tuple(
        name for name in dict.fromkeys([*heads, REST, UNPLACED]) if name in used
    )


def mesh_like():
    """eye is in A and C; tears, below it, only in A by its number; male has no number."""
    return build_ontology(
        [
            Concept("head", {"en": "Head"}, positions=["A01"]),
            Concept("illness", {"en": "Illness"}, positions=["C04"]),
            Concept(
                "eye", {"en": "Eye"}, parents=["head", "illness"], positions=["A01.2", "C04.3"]
            ),
            Concept("tears", {"en": "Tears"}, parents=["eye"], positions=["A01.2.7"]),
            Concept("lash", {"en": "Lash"}, parents=["eye"]),
            Concept("male", {"en": "Male"}),
            Concept("far", {"en": "Far"}, positions=["Z09.1.2.3", "A01.5"]),
        ],
        categories={"Anatomy": ["head"], "Diseases": ["illness"]},
    )


def test_tree_numbers_decide_level_and_category():
    ontology = mesh_like()
    levels = assign_levels(ontology)
    assert level_of(ontology, levels) == {
        "head": 1, "illness": 1, "eye": 2, "tears": 3, "lash": 3, "male": 1, "far": 2,
    }  # fmt: skip
    assert level_of(ontology, assign_levels(ontology, rule="max"))["far"] == 4
    assert categories_of(ontology, levels) == {
        "head": {"Anatomy"},
        "illness": {"Diseases"},
        "eye": {"Anatomy", "Diseases"},
        "tears": {"Anatomy"},  # its number says A, though eye is in C too
        "lash": {"Anatomy", "Diseases"},  # no number: as its parent
        "male": {UNPLACED},
        "far": {"Anatomy", "Z"},  # no heading is declared for Z
    }


def test_numeric_positions_are_grouped_by_their_first_segment():
    ontology = build_ontology([Concept("x", positions=["1.2"]), Concept("y", positions=["10.3"])])
    assert assign_levels(ontology).categories == ("1", "10")


def space(ontology, *documents):
    train = Corpus.of(
        Doc(str(i), {"text": "t"}, labels=labels) for i, labels in enumerate(documents)
    )
    labels = LabelSpace.of(train, ontology)
    return labels, labels.gold(train)


def labels_of(labels, matrix):
    return [{labels.ids[c] for c in matrix[[i]].nonzero()[1]} for i in range(matrix.shape[0])]


# a > a1 > a2 (the last level, 3), b > b1; a2 also under b1
LIFTED = {"a": [], "b": [], "a1": ["a"], "b1": ["b"], "a2": ["a1", "b1"]}


def test_gold_is_lifted_to_a_level_by_the_setting():
    ontology = tree(LIFTED)
    labels, gold = space(ontology, ("a2",), ("a2", "a1"), ("b",), ())
    levels, above = map_to_labels(labels, assign_levels(ontology)), compute_label_ancestors(labels)

    def at(level, expand):
        return labels_of(labels, lift(gold, above, levels, level=level, expand=expand))

    assert at(2, "none") == [set(), {"a1"}, set(), set()]
    assert at(2, "all") == [{"a1", "b1"}, {"a1", "b1"}, set(), set()]
    # only the first document has nothing but labels of the last level
    assert at(2, "lowest") == [{"a1", "b1"}, {"a1"}, set(), set()]
    assert at(1, "lowest") == [{"a", "b"}, set(), {"b"}, set()]
    assert at(3, "all") == at(3, "none") == [{"a2"}, {"a2"}, set(), set()]


def test_levels_of_labels_outside_the_ontology_are_1_in_the_category_without_position():
    ontology = tree(LIFTED)
    labels, gold = space(
        ontology,
        ("a2", "stranger"),
    )
    levels = map_to_labels(labels, assign_levels(ontology))
    column = labels.column["stranger"]
    assert levels.level[column] == 1
    assert levels.categories[int(levels.membership[[column]].indices[0])] == UNPLACED
    lifted = lift(gold, compute_label_ancestors(labels), levels, level=1, expand="none")
    assert labels_of(labels, lifted) == [{"stranger"}]
    assert np.diff(levels.membership.indptr).min() == 1


def test_gold_past_the_label_space_is_at_no_level_and_keeps_its_columns_empty():
    ontology = tree(LIFTED)
    labels, _ = space(ontology, ("a2",))
    other = Corpus.of([Doc("0", {"text": "t"}, labels=("a2", "unheard of"))])
    gold = labels.gold(other)
    assert gold.shape == (1, len(labels) + 1)
    levels, above = map_to_labels(labels, assign_levels(ontology)), compute_label_ancestors(labels)
    lifted = lift(gold, above, levels, level=1, expand="all")
    assert lifted.shape == gold.shape
    assert lifted.dtype == gold.dtype
    assert labels_of(labels, lifted) == [{"a", "b"}]


def test_ancestors_of_label_columns_follow_those_of_concepts():
    ontology = tree(LIFTED)
    labels, _ = space(ontology, ("b1", "a2"))  # seen labels come first, so columns are not concepts
    above = compute_label_ancestors(labels)
    assert isinstance(above, csr_array)
    found = labels_of(labels, above)
    assert found[labels.column["a2"]] == {"a", "b", "a1", "b1"}
    assert found[labels.column["a"]] == set()


@pytest.mark.parametrize("rule", ["min", "max"])
def test_levels_of_labels_are_the_same_without_their_categories(rule):
    for ontology in (tree(DIAMOND), mesh_like()):
        labels, _ = space(ontology, (ontology.ids[-1], "stranger"))
        whole = map_to_labels(labels, assign_levels(ontology, max_level=3, rule=rule))
        alone = compute_label_levels(labels, max_level=3, rule=rule)
        np.testing.assert_array_equal(alone, whole.level)
        assert alone.dtype == whole.level.dtype


def test_without_an_ontology_every_label_is_at_level_1():
    labels, _ = space(None, ("x", "y"))
    assert compute_label_levels(labels).tolist() == [1, 1]


def test_no_ontology_means_no_ancestors():
    labels, _ = space(None, ("x",))
    assert compute_label_ancestors(labels).nnz == 0


def test_levels_that_hardly_any_label_is_at_are_joined_with_the_one_above():
    """A chain of nine concepts: seven levels at most, and less where the deep ones are rare."""
    names = [f"c{i}" for i in range(9)]
    chain = build_ontology(
        [Concept(name, parents=[names[i - 1]] if i else []) for i, name in enumerate(names)]
    )

    def choose(counts: list[int]) -> int:
        docs = [
            Doc(f"{name}-{i}", {"text": "x"}, labels=(name,))
            for name, count in zip(names, counts, strict=True)
            for i in range(count)
        ]
        return choose_max_level(LabelSpace.of(Corpus.of(docs), chain))

    assert choose([5] * 9) == 7
    assert choose([100, 100, 100, 100, 2, 1, 1, 1, 1]) == 4
    assert choose([100, 0, 0, 0, 0, 0, 0, 0, 1]) == 1
