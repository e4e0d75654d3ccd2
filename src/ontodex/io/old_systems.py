"""Systems of version 0.1 that held both a paper's network and ours, chosen by their settings.

Today the name of the paper means the paper's network, and ours has a name of its own. Settings that
chose between the two were removed from the paper's system. So a table that names one of them was
written for version 0.1:

    no such setting             a table of today: the name stays
    all with the paper's value  the paper's network: the name stays
    else                        our network, which was the default: the name of the variant

A mixture of both is opened as the variant, whose settings then refuse what it cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Separated:
    """A system of version 0.1 that is two systems today."""

    variant: str  # today's name of our network
    paper: Mapping[str, Any]  # the paper's values of the settings that chose its network


SEPARATED: dict[str, Separated] = {
    "attentionxml": Separated("attentive", {"read_out": "shared", "bag": 0}),
    "levelwise": Separated("attentive-levels", {"encoder": "level", "bag": 0}),
    "lightattention": Separated(
        "attentive-tree", {"generator": "attention", "bag": 0, "training": "top-down"}
    ),
}


def name_system(model: Mapping[str, Any]) -> Any:
    """Return today's name of the system that a table [model] was written for."""
    name = model.get("name")
    separated = SEPARATED.get(name) if isinstance(name, str) else None
    if separated is None:
        return name
    stated = {key: model[key] for key in separated.paper if key in model}
    is_paper = not stated or stated == dict(separated.paper)
    return name if is_paper else separated.variant
