"""Settings of the decision: the table [decide] of a config file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ontodex.config import check_least, check_range
from ontodex.decide.rules import RULES

if TYPE_CHECKING:
    RuleName = str
else:
    RuleName = Literal[tuple(RULES)]  # so that a wrong name is answered with the choices


@dataclass(frozen=True)
class DecideConfig:
    """Settings of the decision."""

    # top-k: the same number of labels for each document. threshold, per-label: one threshold for
    # all labels, or one for each, tuned on dev. ofo: one for each label, learned online.
    # expected-f: the set with the highest expected F.
    rule: RuleName = "per-label"
    top_k: int = 5  # labels per document, for the rule `top-k`
    # `per-label`: weight of the common threshold, in gold documents; `learn`: of the old thresholds
    shrink: float = 50.0
    prior: float = 50.0  # `ofo`: weight of the common threshold, in decisions; paper: 0
    first_lambda: float = 0.5  # `ofo` without prior: the initial threshold
    passes: int = 3  # `ofo`: passes over dev
    ancestors: Literal["keep", "add", "drop"] = "keep"  # of the predicted labels
    limit: int | None = None  # most labels of a set

    def __post_init__(self) -> None:
        check_least(self, 1, "top_k", "passes", *(["limit"] if self.limit is not None else []))
        check_least(self, 0, "shrink", "prior")
        check_range(self, 0, 1, "first_lambda")
