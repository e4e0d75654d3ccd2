"""The rule `top-k`: the k best labels of every document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.io.json_schema import parse_record
from ontodex.types import Ranking

if TYPE_CHECKING:
    from ontodex.decide.config import DecideConfig


@dataclass(frozen=True)
class TopK:
    """The k best labels with a probability above 0."""

    k: int

    @classmethod
    def tune(cls, config: DecideConfig, ranking: Ranking, gold: csr_array, n_columns: int) -> TopK:
        """Return the rule of the settings; dev plays no part."""
        return cls(config.top_k)

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        """Mark the first k labels of each document."""
        best = np.arange(ranking.k) < self.k
        return np.asarray(best & (ranking.columns >= 0) & (ranking.probabilities > 0))

    def extend(self, n_columns: int) -> TopK:
        """Return the same rule: it does not depend on the labels."""
        return self

    def select(self, columns: NDArray[np.int64]) -> TopK:
        """Return the same rule: it does not depend on the labels."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        return {"k": self.k}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], n_columns: int) -> TopK:
        """Return the rule that `to_json` described."""
        return parse_record(cls, values, "values")
