"""The settings of every table, read from the code: name, default, choices and meaning.

The meaning is the comment behind a setting, or above it. `ontodex settings` and the reference pages
of the documentation show them.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ontodex.config import Table, suggest
from ontodex.errors import ConfigError
from ontodex.models import MODELS, find_model
from ontodex.runs.settings import LabelsConfig, TrainConfig

_WIDTH = 100  # characters of a line


@dataclass(frozen=True)
class Setting:
    """One setting; `name` has the names of its inner tables before it, as `train.lr`."""

    name: str
    default: Any
    choices: tuple[Any, ...]
    meaning: str

    def to_json(self) -> Table:
        return dataclasses.asdict(self)


def find_settings(name: str) -> list[Setting]:
    """Return the settings of a system, or of the tables [labels], [train] and [decide].

    >>> for setting in ontodex.find_settings("semantic"):
    ...     print(setting.name, setting.default, "-", setting.meaning)
    encoder  - a folder, or hub:user/name
    window 60 - words of a window
    windows 10 - windows read of a document
    background 500 - training documents over which similarities are standardised
    """
    from ontodex.decide.config import DecideConfig

    tables = {"labels": LabelsConfig, "train": TrainConfig, "decide": DecideConfig}
    if name in tables:
        return list(list_settings(tables[name]))
    try:
        return list(list_settings(find_model(name).Config))
    except ConfigError as error:
        raise ConfigError(
            f"there is no system {name!r}{suggest(name, [*MODELS, *tables])}",
            hint="ontodex systems lists them",
        ) from error


def list_settings(cls: type, given: Any = None, prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a dataclass that a user chooses.

    Those of a nested table follow as `table.key`, with the defaults that the outer table gives.
    """
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if field.metadata.get("resolved"):
            continue
        default = field.default if field.default is not dataclasses.MISSING else "..."
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if given is not None:
            default = getattr(given, field.name)
        if dataclasses.is_dataclass(default) and not isinstance(default, type):
            yield from list_settings(type(default), default, f"{prefix}{field.name}.")
            continue
        literal = get_origin(hints[field.name]) is Literal
        choices = get_args(hints[field.name]) if literal else ()
        yield Setting(f"{prefix}{field.name}", default, choices, _find_meaning(cls, field.name))


def _find_meaning(cls: type, name: str) -> str:
    """Return the comment behind a setting, or above it, from the class that defines it last."""
    for owner in cls.__mro__:
        if name in vars(owner).get("__annotations__", {}):
            source = inspect.getsource(owner)
            found = re.search(rf"((?:^ +#.*\n)*)^ +{name} *:[^#\n]*(?:# *(.*))?$", source, re.M)
            above, behind = found.groups() if found else ("", "")
            text = behind or " ".join(line.strip(" #") for line in above.splitlines())
            if text:
                return text
    return ""


def format_settings(name: str, settings: Sequence[Setting]) -> str:
    """Return lines for a terminal: each setting with its default, then what it means."""
    if not settings:
        return f"{name} has no settings"
    shown = [(f"{one.name} = {_format_value(one.default)}", _describe(one)) for one in settings]
    width = min(max(len(left) for left, _ in shown), 34) + 2
    lines = []
    for left, right in shown:
        first, *rest = textwrap.wrap(right, _WIDTH - width) or [""]
        if len(left) >= width:
            lines.append(left)
            left = ""
        lines += [f"{left:{width}}{first}".rstrip(), *(" " * width + line for line in rest)]
    table = name if name in ("labels", "train", "decide") else "model"
    return "\n".join([*lines, f"\nset one with --set {table}.NAME=VALUE"])


def _describe(setting: Setting) -> str:
    choices = ", ".join(map(str, setting.choices))
    return f"{setting.meaning} [{choices}]" if choices else setting.meaning


def _format_value(value: Any) -> str:
    """Return a value as it is written in a config file."""
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
