"""Systems of version 0.1 that held both a paper's network and ours, chosen by their settings.

Today the name of the paper means the paper's network, and ours has a name of its own. Settings that
chose between the two were removed from the paper's system. So a table that names one of them was
written for version 0.1:

    no such setting             a table of today: the name stays
    all with the paper's value  the paper's network: the name stays
    else                        our network, which was the default: the name of the variant

A mixture of both is opened as the variant, whose settings then refuse what it cannot be. Runs of
dxml and rankae hold ensembles in files that today's paper systems do not read. So any setting of
0.1 that those lack names the variant, even with the paper's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Separated:
    """A system of version 0.1 that is two systems today."""

    variant: str  # today's name of our network
    paper: Mapping[str, Any] = field(default_factory=dict)  # values that chose the paper's network
    ours: tuple[str, ...] = ()  # settings that name the variant, whatever their values
    others: Mapping[str, Mapping[Any, str]] = field(
        default_factory=dict
    )  # setting -> value -> name


SEPARATED: dict[str, Separated] = {
    "attentionxml": Separated("attentive", {"read_out": "shared", "bag": 0}),
    "levelwise": Separated("attentive-levels", {"encoder": "level", "bag": 0}),
    "lightattention": Separated(
        "attentive-tree", {"generator": "attention", "bag": 0, "training": "top-down"}
    ),
    "dxml": Separated(
        "graphknn",
        ours=(
            "networks", "input_dropout", "hidden_dropout", "exponent", "probe", "embedding",
            "spread", "whiten_labels", "unit_targets", "walk_window", "walk_seed", "skip_gram",
        ),
        others={"embedding": {"kernel": "landmark"}},
    ),
    "rankae": Separated(
        "autoencoder",
        ours=(
            "networks", "word_dropout", "dropout", "pool", "sides", "margin_reduction", "direct",
            "direct_weight",
        ),
    ),
}  # fmt: skip


def name_system(model: Mapping[str, Any]) -> Any:
    """Return today's name of the system that a table [model] was written for."""
    name = model.get("name")
    separated = SEPARATED.get(name) if isinstance(name, str) else None
    if separated is None:
        return name
    for setting, names in separated.others.items():
        if model.get(setting) in names:
            return names[model[setting]]
    if any(setting in model for setting in separated.ours):
        return separated.variant
    stated = {key: model[key] for key in separated.paper if key in model}
    is_paper = not stated or stated == dict(separated.paper)
    return name if is_paper else separated.variant
