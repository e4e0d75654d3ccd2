"""The decision rules by name. A new rule is a module like its neighbours and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.expected_f import ExpectedF
from ontodex.decide.ofo import OFO
from ontodex.decide.per_label import PerLabel
from ontodex.decide.threshold import Threshold
from ontodex.decide.top_k import TopK
from ontodex.types import Ranking

if TYPE_CHECKING:
    from ontodex.decide.config import DecideConfig


class Rule(Protocol):
    """A tuned rule that chooses label sets from rankings."""

    @classmethod
    def tune(cls, config: DecideConfig, ranking: Ranking, gold: csr_array, n_columns: int) -> Self:
        """Return the rule that suits these (dev) documents best; each has at least one label."""
        ...

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        """Return a mask (documents x k) of the labels that are in the sets."""
        ...

    def extend(self, n_columns: int) -> Self:
        """Return the rule for a label space with new columns after the old ones."""
        ...

    def select(self, columns: NDArray[np.int64]) -> Self:
        """Return the rule for other columns: the old number of each, -1 for a new label."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        ...

    @classmethod
    def from_json(cls, values: Mapping[str, Any], n_columns: int) -> Self:
        """Return the rule that `to_json` described, for so many columns."""
        ...


@runtime_checkable
class OnlineRule(Protocol):
    """A rule with thresholds that learn from single decisions of curators."""

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The threshold of each column, or the one of all."""
        ...

    def update(
        self, ranking: Ranking, accepted: csr_array, rejected: csr_array, *, shrink: float
    ) -> Rule:
        """Return the rule after the decisions about these documents, in their order.

        A label that is neither accepted nor rejected changes nothing. `shrink` is the weight of
        the old thresholds, in decisions.
        """
        ...


RULES: Mapping[str, type[Rule]] = {
    "top-k": TopK,
    "threshold": Threshold,
    "per-label": PerLabel,
    "ofo": OFO,
    "expected-f": ExpectedF,
}
