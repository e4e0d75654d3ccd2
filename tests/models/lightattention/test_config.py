"""Settings of LightAttention and of our variant."""

from __future__ import annotations

import pytest

from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.lightattention.config import LightAttentionConfig


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("beam", 0),
        ("layers", ()),
        ("layers", (0,)),
        ("cluster", 1),
    ],
)
def test_settings_of_the_paper_out_of_range_are_refused(setting, value):
    with pytest.raises(ValueError, match=setting):
        LightAttentionConfig(**{setting: value})


@pytest.mark.parametrize(("cluster", "children"), [(16, 8), (31, 8), (4, 2), (2, 2)])
def test_an_inner_node_has_about_half_as_many_children_as_a_cluster_has_labels(cluster, children):
    assert LightAttentionConfig(cluster=cluster).children == children


@pytest.mark.parametrize(
    ("setting", "value"),
    [("beam", -1), ("candidates", 0), ("layers", ()), ("cluster", 1), ("bag", 0)],
)
def test_settings_of_our_variant_out_of_range_are_refused(setting, value):
    with pytest.raises(ValueError, match=setting):
        AttentiveTreeConfig(**{setting: value})
