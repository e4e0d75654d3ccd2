"""What a run may be told: the tables of a config file, checked and complete."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ontodex.config import Table, build, nearest
from ontodex.errors import ConfigError
from ontodex.models import find
from ontodex.models.base import Decides, Model, Refits


@dataclass(frozen=True)
class LabelsConfig:
    """Which labels are learned."""

    min_count: int = 1  # labels of fewer training documents are left out

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise ValueError(f"min_count must be at least 1, not {self.min_count}")


@dataclass(frozen=True)
class TrainConfig:
    """What is learned from."""

    refit: bool = False  # once dev has decided, learn again from train and dev together


@dataclass(frozen=True)
class RunSettings:
    """Everything a config file may say, checked and complete."""

    name: str
    model: Any
    labels: LabelsConfig
    train: TrainConfig
    decide: Any
    model_class: type[Model] = field(repr=False)

    def tables(self) -> dict[str, dict[str, Any]]:
        return {
            "model": {"name": self.name, **_stored(self.model)},
            "labels": _stored(self.labels),
            "train": _stored(self.train),
            "decide": _stored(self.decide),
        }


def _stored(settings: Any) -> Table:
    """The settings that config.toml keeps: not those marked `stored: False`, which only this
    training on this machine can use."""
    values = dataclasses.asdict(settings)
    fields = dataclasses.fields(settings)
    return {f.name: values[f.name] for f in fields if f.metadata.get("stored", True)}


def resolve(tables: Mapping[str, Any]) -> RunSettings:
    """The complete settings of a run; a table or key that nobody reads is refused."""
    from ontodex.decide import DecideConfig

    known = ["model", "labels", "train", "decide"]
    for table in tables:
        if table not in known:
            raise ConfigError(f"there is no table [{table}]{nearest(table, known)}")
    model_table = dict(tables.get("model", {}))
    name = model_table.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError("[model] has no name", hint="say --model NAME, or name = ... in [model]")
    model_class = find(name)
    train_config = build(TrainConfig, tables.get("train", {}), "train")
    if train_config.refit and not issubclass(model_class, Refits):
        raise ConfigError(
            f"[train] refit: the system {name!r} cannot be refitted", hint="leave it false"
        )
    decide_config = build(DecideConfig, tables.get("decide", {}), "decide")
    if issubclass(model_class, Decides) and decide_config.rule != DecideConfig().rule:
        raise ConfigError(
            f"[decide] rule: the system {name!r} chooses label sets by itself",
            hint="leave the rule out; limit and ancestors of [decide] hold for its sets too",
        )
    return RunSettings(
        name,
        build(model_class.Config, model_table, "model"),
        build(LabelsConfig, tables.get("labels", {}), "labels"),
        train_config,
        decide_config,
        model_class,
    )
