"""Rankings into label sets: tuned on dev once, saved as decision.json, applied to any ranking.

    dev ranking, gold - tune - Decision - apply - a Ranking that holds the predicted labels only

The order is exclude, rule, include, ancestors, limit. So an excluded label never comes back, an
included one is never dropped for a better one, and a set is never larger than asked.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import Table, build
from ontodex.decide import constraints, hierarchy
from ontodex.decide.config import DecideConfig
from ontodex.decide.rules import RULES, OnlineRule, Rule
from ontodex.errors import ConfigError, RunError
from ontodex.io.files import write_text
from ontodex.io.json_schema import load_json
from ontodex.ontology.levels import compute_label_ancestors
from ontodex.types import LabelSpace, Ranking

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Decision:
    """A tuned rule. `ancestors` (columns x columns) is there when the config wants them."""

    config: DecideConfig
    rule: Rule
    ancestors: csr_array | None = None

    def apply(
        self,
        ranking: Ranking,
        *,
        limit: int | None = None,
        include: Sequence[int] = (),
        exclude: Sequence[int] = (),
    ) -> Ranking:
        """Return the label set of each document, at most `limit` labels (and the config's limit).

        `include` and `exclude` are columns. Included ones come with their probability in the
        ranking (0 when they are not in it) and take places of the limit before the others.
        """
        if both := set(include) & set(exclude):
            raise ConfigError(f"columns {sorted(both)} are both included and excluded")
        ranking = constraints.exclude_columns(ranking, exclude)
        sets = ranking.keep(self.rule.choose(ranking))
        return self.apply_constraints(sets, ranking, limit=limit, include=include, exclude=exclude)

    def apply_constraints(
        self,
        label_sets: Ranking,
        ranking: Ranking,
        *,
        limit: int | None = None,
        include: Sequence[int] = (),
        exclude: Sequence[int] = (),
    ) -> Ranking:
        """Apply everything but the rule to label sets that a system chose from its ranking."""
        sets = constraints.exclude_columns(label_sets, exclude)
        sets = constraints.include_columns(sets, include, ranking)
        if self.ancestors is not None and self.config.ancestors == "add":
            sets = hierarchy.add_ancestors(sets, self.ancestors)
            sets = constraints.exclude_columns(sets, exclude)
        elif self.ancestors is not None:
            keep = np.zeros(self.ancestors.shape[0], dtype=bool)
            keep[list(include)] = True
            sets = hierarchy.drop_ancestors(sets, self.ancestors, keep)
        limits = [n for n in (limit, self.config.limit) if n is not None]
        return constraints.limit_size(sets, max(0, min(limits)), include) if limits else sets

    def update(self, ranking: Ranking, accepted: csr_array, rejected: csr_array) -> Decision:
        """Return the decision after curators' decisions about these documents, in their order."""
        if not isinstance(self.rule, OnlineRule):
            raise RunError(
                f"the rule {self.config.rule!r} has no thresholds that could learn from decisions",
                hint="ontodex learn --retrain trains the system again with the decisions",
            )
        rule = self.rule.update(ranking, accepted, rejected, shrink=self.config.shrink)
        return dataclasses.replace(self, rule=rule)

    def for_labels(self, labels: LabelSpace) -> Decision:
        """Return the decision for a label space with more columns.

        A new label is treated like the labels without dev documents.
        """
        rule = self.rule.extend(len(labels))
        return dataclasses.replace(self, rule=rule, ancestors=_find_ancestors(self.config, labels))

    def for_columns(self, labels: LabelSpace, columns: NDArray[np.int64]) -> Decision:
        """Return the decision for another label space: the old column of each label, or -1."""
        rule = self.rule.select(columns)
        return dataclasses.replace(self, rule=rule, ancestors=_find_ancestors(self.config, labels))

    def save(self, path: Path) -> None:
        """Write plain JSON; the same decision always gives the same bytes."""
        config, values = dataclasses.asdict(self.config), self.rule.to_json()
        text = json.dumps({"format": FORMAT, "config": config, "values": values})
        write_text(path, text + "\n")


def tune_decision(
    config: DecideConfig, ranking: Ranking, gold: csr_array, labels: LabelSpace
) -> Decision:
    """Return the decision that suits these (dev) documents best; those without gold are ignored."""
    has_gold = np.diff(gold.indptr) > 0
    rule = RULES[config.rule].tune(
        config, ranking.take(has_gold), csr_array(gold[has_gold]), len(labels)
    )
    return Decision(config, rule, _find_ancestors(config, labels))


def _find_ancestors(config: DecideConfig, labels: LabelSpace) -> csr_array | None:
    """Return the ancestors among the columns, for a config that adds or drops them."""
    if config.ancestors == "keep":
        return None
    if labels.ontology is None:
        raise ConfigError(
            f"[decide] ancestors = {config.ancestors!r} needs an ontology",
            hint="give one with --ontology, or leave ancestors = 'keep'",
        )
    return compute_label_ancestors(labels)


@dataclass(frozen=True)
class _DecisionJson:
    """The fields of decision.json."""

    format: int
    config: Table
    values: Table  # of the rule


def load_decision(path: Path, labels: LabelSpace) -> Decision:
    """Read what `Decision.save` wrote, for the label space it was tuned on."""
    stored = load_json(path, _DecisionJson)
    if stored.format != FORMAT:
        raise RunError(f"{path}: decision format {stored.format}; this version reads {FORMAT}")
    config = build(DecideConfig, stored.config, "decide")
    try:
        rule = RULES[config.rule].from_json(stored.values, len(labels))
    except (ValueError, RunError) as error:
        raise RunError(f"{path}: not a decision as training writes it ({error})") from error
    return Decision(config, rule, _find_ancestors(config, labels))
