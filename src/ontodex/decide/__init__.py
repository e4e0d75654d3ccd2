"""Rankings into label sets: tuned on dev once, kept in decision.json, applied to any ranking.

    dev ranking, gold ─ tune ─ Decision ─ apply ─ a Ranking that holds the chosen labels only

exclude ─ the rule ─ include ─ ancestors ─ limit: in this order, so that an excluded label never
comes back, an included one is never dropped for a better one, and a set is never larger than asked.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.decide import hierarchy, lists
from ontodex.decide.expected_f import ExpectedF
from ontodex.decide.ofo import OFO
from ontodex.decide.threshold import PerLabel, Threshold, Top, entries, tune_each, tune_one
from ontodex.errors import ConfigError, RunError
from ontodex.files import write_text
from ontodex.ontology.levels import label_ancestors
from ontodex.types import LabelSpace, Ranking

FORMAT = 1


@dataclass(frozen=True)
class DecideConfig:
    """How rankings become label sets."""

    # The same number for each document; one threshold for all labels or one a label, from dev; one
    # a label, learned online; or the set of the highest expected F.
    rule: Literal["top", "threshold", "per-label", "ofo", "expected-f"] = "per-label"
    top: int = 5  # labels a document, for the rule `top`
    shrink: float = 50.0  # `per-label`: the one threshold weighs as much as so many gold documents
    prior: float = 50.0  # `ofo`: decisions for which the one threshold of dev counts; paper: 0
    first_lambda: float = 0.5  # `ofo` without prior: the threshold before a label was met
    passes: int = 3  # `ofo`: times over dev
    ancestors: Literal["keep", "add", "drop"] = "keep"  # of the chosen labels
    limit: int | None = None  # never more labels than this

    def __post_init__(self) -> None:
        if self.top < 1 or self.passes < 1:
            raise ValueError("top and passes must be at least 1")
        if self.shrink < 0 or self.prior < 0:
            raise ValueError("shrink and prior must not be negative")
        if not 0 <= self.first_lambda <= 1:
            raise ValueError(f"first_lambda must be in [0, 1], not {self.first_lambda}")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")


class Rule(Protocol):
    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        """Which answers (documents x k) are in the set."""
        ...


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
        """The label set of each document, at most `limit` labels (and the config's limit).

        `include` and `exclude` are columns. Included ones come with their probability in the
        ranking (0 when they are not in it) and take places of the limit before the others.
        """
        if both := set(include) & set(exclude):
            raise ConfigError(f"columns {sorted(both)} are both included and excluded")
        ranking = lists.without(ranking, exclude)
        chosen = ranking.keep(self.rule.choose(ranking))
        return self.settle(chosen, ranking, limit=limit, include=include, exclude=exclude)

    def settle(
        self,
        chosen: Ranking,
        ranking: Ranking,
        *,
        limit: int | None = None,
        include: Sequence[int] = (),
        exclude: Sequence[int] = (),
    ) -> Ranking:
        """The same where the rule is not asked: a system chose these sets of its ranking."""
        chosen = lists.including(lists.without(chosen, exclude), include, ranking)
        if self.ancestors is not None and self.config.ancestors == "add":
            chosen = lists.without(hierarchy.close(chosen, self.ancestors), exclude)
        elif self.ancestors is not None:
            keep = np.zeros(self.ancestors.shape[0], dtype=bool)
            keep[list(include)] = True
            chosen = hierarchy.most_specific(chosen, self.ancestors, keep)
        limits = [n for n in (limit, self.config.limit) if n is not None]
        return lists.at_most(chosen, max(0, min(limits)), include) if limits else chosen

    def update(self, ranking: Ranking, accepted: csr_array, rejected: csr_array) -> Decision:
        """The decision after curators' judgements of these documents, in their order."""
        if not isinstance(self.rule, OFO):
            raise RunError(
                f"the rule {self.config.rule!r} does not learn from single judgements",
                hint="train with --set decide.rule=ofo",
            )
        return dataclasses.replace(self, rule=self.rule.update(ranking, accepted, rejected))

    def for_labels(self, labels: LabelSpace) -> Decision:
        """The same rule for a label space with more columns; a new label is treated as the labels
        of which dev said nothing."""
        rule = self.rule
        if isinstance(rule, PerLabel | OFO):
            rule = rule.widened(len(labels))
        return dataclasses.replace(self, rule=rule, ancestors=_ancestors(self.config, labels))

    def save(self, path: Path) -> None:
        """Write plain JSON; the same decision always gives the same bytes."""
        values = {
            field.name: _plain(getattr(self.rule, field.name))
            for field in dataclasses.fields(self.rule)  # type: ignore[arg-type]
        }
        config = dataclasses.asdict(self.config)
        text = json.dumps({"format": FORMAT, "config": config, "values": values})
        write_text(path, text + "\n")


def tune(config: DecideConfig, ranking: Ranking, gold: csr_array, labels: LabelSpace) -> Decision:
    """The decision that is best for these (dev) documents; those without gold are left out."""
    known = np.diff(gold.indptr) > 0
    rule = _tuned(config, ranking.take(known), csr_array(gold[known]), len(labels))
    return Decision(config, rule, _ancestors(config, labels))


def _tuned(config: DecideConfig, ranking: Ranking, gold: csr_array, n_columns: int) -> Rule:
    if config.rule == "top":
        return Top(config.top)
    if config.rule == "expected-f":
        return ExpectedF()
    found = entries(ranking, gold)
    one = tune_one(found, gold.nnz)
    if config.rule == "threshold":
        return one
    if config.rule == "ofo":
        first = one.value if config.prior else config.first_lambda
        fresh = OFO.new(n_columns, first, prior=config.prior)
        return fresh.passes(ranking, gold, config.passes)
    counts = np.bincount(gold.indices, minlength=n_columns)[:n_columns]
    return tune_each(found, counts, config.shrink, one)


def _ancestors(config: DecideConfig, labels: LabelSpace) -> csr_array | None:
    """Ancestors among the columns, for a config that adds or drops them."""
    if config.ancestors == "keep":
        return None
    if labels.ontology is None:
        raise ConfigError(
            f"[decide] ancestors = {config.ancestors!r} needs an ontology",
            hint="give one with --ontology, or leave ancestors = 'keep'",
        )
    return label_ancestors(labels)


def load(path: Path, labels: LabelSpace) -> Decision:
    """What `Decision.save` wrote, for the label space it was tuned on."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] != FORMAT:
            raise RunError(
                f"{path}: decision format {stored['format']}; this version reads {FORMAT}"
            )
        config = build(DecideConfig, stored["config"], "decide")
        rule = _rule(config, dict(stored["values"]), len(labels))
    except (OSError, LookupError, ValueError, TypeError) as error:
        raise RunError(f"{path}: not a decision as training writes it ({error})") from error
    return Decision(config, rule, _ancestors(config, labels))


def _rule(config: DecideConfig, values: dict[str, Any], n_columns: int) -> Rule:
    if config.rule == "top":
        return Top(int(values["k"]))
    if config.rule == "threshold":
        return Threshold(float(values["value"]))
    if config.rule == "expected-f":
        return ExpectedF()
    if config.rule == "per-label":
        thresholds = _array(values["values"], n_columns, np.float64)
        start = values["start"] if "start" in values else _earlier_start(values["values"])
        return PerLabel(thresholds, float(start))
    return OFO(
        float(values["first"]),
        float(values["prior"]),
        _array(values["thresholds"], n_columns, np.float64),
        _array(values["alpha"], n_columns, np.int64),
        _array(values["beta"], n_columns, np.int64),
    )


def _plain(value: Any) -> Any:
    """Numbers as they are; an array as its commonest value and the columns that differ from it."""
    if not isinstance(value, np.ndarray):
        return value
    distinct, counts = np.unique(value, return_counts=True)
    usual = distinct[counts.argmax()] if len(distinct) else value.dtype.type(0)
    columns = np.flatnonzero(value != usual)
    return {
        "columns": len(value),
        "usual": usual.item(),
        "at": columns.tolist(),
        "values": value[columns].tolist(),
    }


def _earlier_start(stored: dict[str, Any]) -> float:
    """Where thresholds started, of a file that does not say so: labels of which dev said nothing
    still stand there. Where each label has a threshold of its own, the median."""
    if len(stored["at"]) + 1 < stored["columns"]:
        return float(stored["usual"])
    return float(np.median([stored["usual"], *stored["values"]]))


def _array(stored: dict[str, Any], n_columns: int, dtype: type) -> NDArray[Any]:
    if stored["columns"] != n_columns:
        raise ValueError(f"made for {stored['columns']} labels, not for {n_columns}")
    array: NDArray[Any] = np.full(n_columns, stored["usual"], dtype=dtype)
    array[np.asarray(stored["at"], dtype=np.int64)] = stored["values"]
    if not np.isfinite(array).all() or bool((array < 0).any()):
        raise ValueError("a value that is negative or not finite")
    return array


__all__ = ["DecideConfig", "Decision", "Rule", "load", "tune"]
