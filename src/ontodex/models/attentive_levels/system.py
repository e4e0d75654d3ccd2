"""`attentive-levels`: label attention for each level of an ontology, merged into one label set.

Our variant of Deep Level-wise XMLC; differences and their effects: docs/papers/attentive-levels.md.
"""

from __future__ import annotations

from ontodex.models.attentive_levels.config import AttentiveLevelsConfig
from ontodex.models.attentive_levels.network import AttentiveLevels
from ontodex.models.levelwise.system import Levelwise


class AttentiveLevelsSystem(Levelwise):
    """Levels, passes, thresholds and merging of the paper, with label attention and bags."""

    Config = AttentiveLevelsConfig
    Network = AttentiveLevels
