"""The fields of levelwise.json in a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ontodex.config import Table, check_range
from ontodex.models.levelwise.levels import LevelJson
from ontodex.models.levelwise.merge import MergeJson


@dataclass(frozen=True, kw_only=True)
class LevelwiseJson(MergeJson):
    """The fields of levelwise.json."""

    settings: Table
    passes: int
    levels: tuple[LevelJson, ...]
    kind: Literal["text", "sparse"] = "text"

    def __post_init__(self) -> None:
        if len(self.level_calibration) != len(self.levels):
            raise ValueError("there must be one calibration for each level")
        check_range(self, 1, 2, "passes")
