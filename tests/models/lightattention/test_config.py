"""Settings of LightAttention."""

from __future__ import annotations

import pytest

from ontodex.models.lightattention.config import LightAttentionConfig

SMALL = {"hidden": 3, "value_dim": 2, "width": 4, "bag": 3, "word_dropout": 0.0, "dropout": 0.0}


def settings(**more: object) -> LightAttentionConfig:
    return LightAttentionConfig(**{**SMALL, **more})  # type: ignore[arg-type]


def test_static_negatives_with_joint_training_are_refused():
    with pytest.raises(ValueError, match="top-down"):
        settings(negatives="static", training="joint")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("beam", -1),
        ("candidates", 0),
        ("train_beam_ratio", 0.0),
        ("layers", 0),
        ("cluster", 1),
        ("children", 6),
        ("bag", -1),
    ],
)
def test_settings_out_of_range_are_refused(setting, value):
    with pytest.raises(ValueError, match=setting):
        settings(**{setting: value})
