from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.models.label_tree import build
from ontodex.models.level_clusters import with_clusters
from ontodex.types import LabelSpace


@settings(deadline=None, max_examples=50)
@given(n=st.integers(1, 60), children=st.sampled_from([2, 4]), seed=st.integers(0, 5))
def test_a_cluster_stands_above_its_labels_and_is_as_frequent_as_they_are(n, children, seed):
    rng = np.random.default_rng(seed)
    tree = build(csr_array(rng.random((n, 4))), seed=seed, cluster=2, children=children)
    frequency = rng.integers(1, 9, n)
    space = with_clusters(LabelSpace(tuple(f"l{i}" for i in range(n)), frequency, 9, None), tree)
    above = {f"l{i}": [] for i in range(n)}  # from the top down
    for level in range(1, tree.height + 1):
        for node in range(tree.n_nodes(level)):
            members = [i for i in range(n) if tree.node_of(level)[i] == node]
            cluster = f"cluster {level}.{node}"
            assert space.frequency[space.column[cluster]] == sum(frequency[i] for i in members)
            for i in members:
                above[f"l{i}"].append(cluster)
    assert space.ontology is not None
    assert {label: space.ontology.path(label)[:-1] for label in above} == above
    assert space.ids[:n] == tuple(above)
    assert len(space) == n + sum(tree.n_nodes(level) for level in range(1, tree.height + 1))
