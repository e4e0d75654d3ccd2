"""Settings: TOML tables into frozen dataclasses, with `--set table.key=value` on top.

A stage or a system declares its settings as a frozen dataclass, one line each, checks ranges in
`__post_init__` (ValueError with a sentence), and gets here unknown keys refused with the nearest
right one, and values of the wrong type named. A field that is a dataclass is a table inside.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ontodex.errors import ConfigError

T = TypeVar("T")
Table = dict[str, Any]


def read(path: Path | None, overrides: Sequence[str] = ()) -> Table:
    """The tables of a TOML file with the overrides applied; no file is an empty table."""
    tables: Table = {}
    if path is not None:
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not TOML ({error})") from error
    for override in overrides:
        _apply(tables, override)
    return tables


def _apply(tables: Table, override: str) -> None:
    """Set one `table.key=value`; the value is TOML, and a bare word is a string."""
    name, equals, text = override.partition("=")
    *path, key = name.strip().split(".")
    if not equals or not path or not key:
        raise ConfigError(
            f"--set takes table.key=value, not {override!r}",
            hint="for example --set model.hidden=512",
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for step in path:
        tables = tables.setdefault(step, {})
        if not isinstance(tables, dict):
            raise ConfigError(f"--set {name}: {step!r} is a setting, not a table")
    tables[key] = value


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> Table:
    """Both tables in one; the other's values count, within inner tables too."""
    both = dict(one)
    for key, value in other.items():
        inner = both.get(key)
        is_table = isinstance(inner, dict) and isinstance(value, dict)
        both[key] = merged(inner, value) if is_table else value  # type: ignore[arg-type]
    return both


def build(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Fill dataclass `cls` from `table`; `where` is the table's name in messages."""
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    types_ = typing.get_type_hints(cls)
    values = {}
    for key, value in table.items():
        if key not in fields:
            raise ConfigError(f"[{where}] has no setting {key!r}{nearest(key, list(fields))}")
        if dataclasses.is_dataclass(types_[key]) and isinstance(value, dict):
            default = getattr(cls(), key)
            value = build(type(default), {**_flat(default), **value}, f"{where}.{key}")
        elif not _fits(value, types_[key]):
            raise ConfigError(f"[{where}] {key} takes {_words(types_[key])}, not {value!r}")
        values[key] = _shape(value, types_[key])
    try:
        return cls(**values)
    except ValueError as error:  # raised by the dataclass's own __post_init__
        raise ConfigError(f"[{where}] {error}") from error


# For a `__post_init__`; `build` says in which table.


def check_least(settings: object, least: float, *names: str) -> None:
    for name in names:
        if not getattr(settings, name) >= least:  # nor is nan
            raise ValueError(f"{name} must be at least {least}, not {getattr(settings, name)}")


def check_shares(settings: object, *names: str) -> None:
    """Of what is dropped, say: all of it would leave nothing."""
    for name in names:
        if not 0 <= getattr(settings, name) < 1:
            raise ValueError(f"{name} must be in [0, 1), not {getattr(settings, name)}")


def check_seed(settings: object, name: str = "seed") -> None:
    """Generators of random numbers would refuse it later."""
    if not 0 <= getattr(settings, name) < 2**32:
        raise ValueError(f"{name} must be from 0 to {2**32 - 1}, not {getattr(settings, name)}")


def _flat(settings: Any) -> Table:
    return {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}


def nearest(word: str, choices: Sequence[str]) -> str:
    """'; did you mean ...?' for a mistyped word, else the list of what exists."""
    if meant := did_you_mean(word, choices, 1):
        return meant
    return f"; it takes {', '.join(choices)}" if choices else "; it has none"


def did_you_mean(word: str, choices: Iterable[str], most: int) -> str:
    """'; did you mean ...?' with the nearest choices, in whatever case; '' where none is."""
    written = {choice.casefold(): choice for choice in choices}
    near = difflib.get_close_matches(word.casefold(), written, n=most)
    return f"; did you mean {' or '.join(repr(written[one]) for one in near)}?" if near else ""


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in arguments
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(v, arguments[0]) for v in value)
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) <= sys.float_info.max  # nan and inf pass range checks
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is type(None):
        return value is None
    return isinstance(value, hint)


def _shape(value: Any, hint: Any) -> Any:
    if hint is float:
        return float(value)
    return tuple(value) if isinstance(value, list) else value


def _words(hint: Any) -> str:
    """A type as people say it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(a) for a in arguments if a is not type(None))
    if origin is tuple:
        return f"a list of {_words(arguments[0])}"
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )


def dump(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of plain values as TOML text; settings that are None are left out."""
    lines: list[str] = []
    for name, table in tables.items():
        inner = {f"{name}.{key}": value for key, value in table.items() if isinstance(value, dict)}
        lines.append(f"[{name}]")
        lines += [
            f"{key} = {_value(value)}"
            for key, value in table.items()
            if value is not None and not isinstance(value, dict)
        ]
        lines += ["", dump(inner)] if inner else [""]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON's strings, numbers and booleans are TOML's, once non-ASCII is kept as it is.
    return json.dumps(value, ensure_ascii=False)
