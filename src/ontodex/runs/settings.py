"""The settings of a run: the tables of a config file or keywords, checked and complete."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ontodex import config
from ontodex.config import Table, build, check_least, list_former, suggest
from ontodex.errors import ConfigError
from ontodex.features.languages import find_languages
from ontodex.features.token_config import set_languages
from ontodex.io.hub import HUB
from ontodex.io.old_names import translate_old_names
from ontodex.models import find_model
from ontodex.models.interface import Decides, Model, Refits

logger = logging.getLogger(__name__)

TABLES = ("model", "labels", "train", "decide")


@dataclass(frozen=True)
class LabelsConfig:
    """The labels that are learned."""

    min_count: int = 1  # labels of fewer training documents are left out

    def __post_init__(self) -> None:
        check_least(self, 1, "min_count")


@dataclass(frozen=True)
class TrainConfig:
    """The documents that are learned from."""

    languages: tuple[str, ...] = ()  # of the documents: codes or names, or none; () = guessed
    # Once dev has decided, learn again from train and dev together; auto: if no dev was given.
    refit: bool | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        find_languages(self.languages)


@dataclass(frozen=True)
class RunSettings:
    """All settings of a run, checked and complete."""

    name: str
    model: Any
    labels: LabelsConfig
    train: TrainConfig
    decide: Any
    model_class: type[Model] = field(repr=False)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the tables of config.toml."""
        return {
            "model": {"name": self.name, **_settings_to_store(self.model)},
            "labels": _settings_to_store(self.labels),
            "train": _settings_to_store(self.train),
            "decide": _settings_to_store(self.decide),
        }

    def read_languages(self, languages: tuple[str, ...]) -> RunSettings:
        """Return the settings of a system that reads documents of these languages."""
        return dataclasses.replace(self, model=set_languages(self.model, languages))


def _settings_to_store(settings: Any) -> Table:
    """Return the settings that config.toml keeps. Those marked `stored: False` are left out: only
    this training on this machine can use them."""
    values = dataclasses.asdict(settings)
    fields = dataclasses.fields(settings)
    return {f.name: values[f.name] for f in fields if f.metadata.get("stored", True)}


def list_needed_paths(settings: Any) -> list[str]:
    """List the files and folders that settings of a system name, those marked `path: True`, but
    not the repositories of the Hub."""
    marked = [
        getattr(settings, f.name) for f in dataclasses.fields(settings) if f.metadata.get("path")
    ]
    paths = [[value] if isinstance(value, str) else value for value in marked]
    return [path for some in paths for path in some if path and not path.startswith(HUB)]


def merge_keywords(
    model: str | None,
    tables: str | Path | Mapping[str, Any] | None,
    keywords: Mapping[str, Any],
) -> Table:
    """Return the tables of a config file (or a dict), overridden by keywords.

    `labels` and `decide` are tables of these names, `refit` and `language` are settings of [train],
    and `loop` is the table [model.train]. Every other keyword is a setting of [model].
    """
    base = config.read(Path(tables)) if isinstance(tables, str | Path) else dict(tables or {})
    own = dict(keywords)
    named: Table = {name: own.pop(name) for name in ("labels", "decide") if name in own}
    if "refit" in own:
        named["train"] = {"refit": own.pop("refit")}
    if (language := own.pop("language", None)) is not None:
        languages = [language] if isinstance(language, str) else list(language)
        named["train"] = {**named.get("train", {}), "languages": languages}
    if "loop" in own:
        own["train"] = own.pop("loop")
    if model is not None:
        own["name"] = model
    merged = config.merge_tables(base, {**named, **({"model": own} if own else {})})
    return {name: write_paths(table) for name, table in merged.items()}


def write_paths(value: Any) -> Any:
    """Return a setting, or a table of settings, with text for each `Path`."""
    if isinstance(value, Mapping):
        return {key: write_paths(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [write_paths(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def resolve(tables: Mapping[str, Any], *, names_old: bool = True) -> RunSettings:
    """Return the complete settings of a run; an unknown table or key is refused.

    A warning names the settings that were renamed, or with `names_old` = False only counts them:
    nobody has to edit the settings of a run folder.
    """
    from ontodex.decide.config import DecideConfig

    for table, settings in tables.items():
        if table not in TABLES:
            raise ConfigError(
                f"there is no table [{table}]{suggest(table, TABLES)}",
                hint="this is an experiment: ontodex experiment FILE"
                if "systems" in tables
                else "",
            )
        if not isinstance(settings, Mapping):
            raise ConfigError(f"[{table}] must be a table of settings, not {settings!r:.60}")
    tables = translate_old_names(tables, names_them=names_old)
    model_table = dict(tables.get("model", {}))
    name = model_table.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(
            "no system is named",
            hint="give --model auto, which finds one that suits, or --model NAME; "
            "`ontodex systems` lists them with advice",
        )
    model_class = find_model(name)
    if names_old and (former := list_former(model_class.Config, model_table, "model")):
        logger.warning("settings that were removed are left out: %s", ", ".join(former))
    train_config = build(TrainConfig, tables.get("train", {}), "train")
    if train_config.refit is True and not issubclass(model_class, Refits):
        raise ConfigError(
            f"[train] refit: the system {name!r} cannot be refitted", hint="leave it false"
        )
    decide_config = build(DecideConfig, tables.get("decide", {}), "decide")
    if issubclass(model_class, Decides) and decide_config.rule != DecideConfig().rule:
        raise ConfigError(
            f"[decide] rule: the system {name!r} predicts label sets by itself",
            hint="leave the rule out; limit and ancestors of [decide] apply to its sets too",
        )
    return RunSettings(
        name,
        build(model_class.Config, model_table, "model"),
        build(LabelsConfig, tables.get("labels", {}), "labels"),
        train_config,
        decide_config,
        model_class,
    )
