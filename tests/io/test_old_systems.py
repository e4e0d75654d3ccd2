"""Tables of version 0.1 that meant ours under a paper's name are opened under our name."""

from __future__ import annotations

import pytest

from ontodex.errors import ConfigError
from ontodex.io.old_systems import SEPARATED, name_system
from ontodex.models import MODELS
from ontodex.runs.settings import resolve


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"hidden": 128}, "attentionxml"),
        ({"bag": 0, "read_out": "shared"}, "attentionxml"),
        ({"bag": 512}, "attentive"),
        ({"bag": 1024, "read_out": "label"}, "attentive"),
    ],
    ids=["today", "the paper", "a part of ours", "ours"],
)
def test_a_table_is_read_by_the_settings_that_chose_the_network(settings, name):
    assert name_system({"name": "attentionxml", **settings}) == name
    assert resolve({"model": {"name": "attentionxml", **settings}}).name == name


def test_a_mixture_of_paper_and_ours_is_refused_with_the_value_that_is_left():
    model = {"name": "attentionxml", "bag": 512, "read_out": "shared"}
    with pytest.raises(ConfigError, match="read_out was removed; it is always 'label' here"):
        resolve({"model": model})


def test_settings_of_the_paper_s_form_are_translated_with_a_warning(caplog):
    old = {"read_out": "shared", "bag": 0, "value": 64, "word_dropout": 0.1, "hidden": 32}
    settings = resolve({"model": {"name": "attentionxml", **old}})
    assert (settings.name, settings.model.layers) == ("attentionxml", (64,))
    assert "model.value is now model.layers" in caplog.text
    assert "left out: model.read_out, model.bag, model.word_dropout" in caplog.text


def test_a_removed_setting_is_refused_where_no_system_had_it():
    with pytest.raises(ConfigError, match="no setting 'word_dropout'"):
        resolve({"model": {"name": "linear", "word_dropout": 0.1}})


def test_every_separated_system_and_its_variant_exist():
    for name, separated in SEPARATED.items():
        assert {name, separated.variant} <= set(MODELS)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"name": "dxml", "hidden": 512}, "dxml"),
        ({"name": "dxml", "networks": 1}, "graphknn"),
        ({"name": "dxml", "spread": False}, "graphknn"),
        ({"name": "dxml", "embedding": "network"}, "graphknn"),
        ({"name": "dxml", "embedding": "kernel", "networks": 8}, "landmark"),
        ({"name": "rankae", "margin": 0.5}, "rankae"),
        ({"name": "rankae", "direct": 0.0}, "autoencoder"),
    ],
)
def test_ensembles_of_version_0_1_are_the_variants_whatever_their_values(settings, name):
    assert name_system(settings) == name


def test_settings_of_the_former_dxml_by_kernel_regression_are_understood():
    old = {"embedding": "kernel", "ridge": 0.3, "networks": 8, "spread": True, "train": {"seed": 5}}
    found = resolve({"model": {"name": "dxml", **old}})
    assert (found.name, found.model.ridge, found.model.seed) == ("landmark", 0.3, 5)
