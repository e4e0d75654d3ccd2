"""Settings: TOML tables into frozen dataclasses, with `--set table.key=value` on top.

A stage or a system declares its settings as a frozen dataclass, one line each, and checks ranges in
`__post_init__` (ValueError with a sentence). `build` refuses unknown keys, with the nearest known
one, and values of a wrong type. A field that is a dataclass is an inner table.

A setting that was removed may still stand in older run folders and files. Where all systems of a
class now have one value of it, the class has this value as a `ClassVar` of the same name; settings
that only steered training are named in the ClassVar `FORMER`. `build` leaves out both.
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
from ontodex.io.old_names import translate_saved

T = TypeVar("T")
Table = dict[str, Any]
MAX_BYTES = 1_000_000  # of a TOML file

# Metadata of a field that belongs to the settings of a system, and that training decides: it is no
# setting of a user, and config.toml does not have it.
RESOLVED = {"resolved": True, "stored": False}

MAX_INT = 2**53  # of a setting
MAX_WIDTH = 2**20  # of a layer


def read(path: Path | None, overrides: Sequence[str] = ()) -> Table:
    """Return the tables of a TOML file with the overrides applied; None is an empty file."""
    tables: Table = {}
    if path is not None:
        try:
            if path.exists() and not path.is_file():  # a pipe would block, a device never end
                raise ConfigError(f"{path}: is not a regular file")
            _check_size(path)
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
        except ValueError as error:  # also a number of thousands of digits
            raise ConfigError(f"{path}: not TOML ({error})") from error
        except RecursionError as error:
            raise ConfigError(f"{path}: arrays or tables are nested too deeply") from error
    for override in overrides:
        _apply(tables, override)
    return tables


def check_needed(name: str, settings: Any) -> None:
    """Refuse to train a system without a setting that is marked `needed`, and say how to get it."""
    for item in dataclasses.fields(settings):
        if "needed" in item.metadata and not getattr(settings, item.name):
            raise ConfigError(f"{name} needs {item.metadata['needed']}", hint=item.metadata["hint"])


def _check_size(path: Path) -> None:
    if (size := path.stat().st_size) > MAX_BYTES:
        raise ConfigError(f"{path}: {size:,} bytes; settings have at most {MAX_BYTES:,}")


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
    except (ValueError, RecursionError):
        value = text.strip()
    for step in path:
        tables = tables.setdefault(step, {})
        if not isinstance(tables, dict):
            raise ConfigError(f"--set {name}: {step!r} is a setting, not a table")
    tables[key] = value


def merge_tables(one: Mapping[str, Any], other: Mapping[str, Any]) -> Table:
    """Return one table with the settings of both; where both have one, the other's value wins."""
    both = dict(one)
    for key, value in other.items():
        inner = both.get(key)
        is_table = isinstance(inner, dict) and isinstance(value, dict)
        both[key] = merge_tables(inner, value) if is_table else value  # type: ignore[arg-type]
    return both


def build(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Fill dataclass `cls` from `table`; `where` is the table's name in messages."""

    def accepts(setting: str, value: Any) -> bool:
        return _accepts(cls, setting.removeprefix(f"{where}.").split("."), value)

    return _build(cls, translate_saved(table, where, accepts=accepts), where)


_TYPES: dict[Any, Mapping[str, Any]] = {}


def _field_types(cls: Any) -> Mapping[str, Any]:
    """Return the type of each field, cached: resolving annotations takes a millisecond."""
    if cls not in _TYPES:
        _TYPES[cls] = typing.get_type_hints(cls)
    return _TYPES[cls]


def _accepts(cls: Any, path: Sequence[str], value: Any) -> bool:
    """Tell whether a dataclass has the setting at `path` and takes `value` for it."""
    for step in path:
        if not dataclasses.is_dataclass(cls):
            return False
        if _is_former(cls, step, value):
            return True
        if step not in _field_types(cls):
            return False
        cls = _field_types(cls)[step]
    return _fits(value, cls)


def _build(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Fill a dataclass from a table with today's names."""
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    types_ = _field_types(cls)
    values = {}
    for key, value in table.items():
        if _is_former(cls, key, value):
            continue
        if key not in fields:
            raise ConfigError(_describe_unknown(cls, key, where))
        if dataclasses.is_dataclass(types_[key]) and isinstance(value, dict):
            default = getattr(cls(), key)
            value = _build(type(default), {**_to_table(default), **value}, f"{where}.{key}")
        elif not _fits(value, types_[key]):
            raise ConfigError(f"[{where}] {key} takes {_describe(types_[key])}, not {value!r}")
        values[key] = _convert(value, types_[key])
    try:
        return cls(**values)
    except ValueError as error:  # raised by the dataclass's own __post_init__
        raise ConfigError(f"[{where}] {error}") from error


def list_former(cls: Any, table: Mapping[str, Any], where: str) -> list[str]:
    """Return the settings of a table that `build` leaves out because they were removed."""
    names = [f"{where}.{key}" for key, value in table.items() if _is_former(cls, key, value)]
    types_ = _field_types(cls)
    for key, value in table.items():
        if dataclasses.is_dataclass(types_.get(key)) and isinstance(value, dict):
            names += list_former(types_[key], value, f"{where}.{key}")
    return names


def _is_former(cls: Any, key: str, value: Any) -> bool:
    """Tell whether a setting was removed and its value changes nothing."""
    if key in {field.name for field in dataclasses.fields(cls)}:
        return False
    if key in getattr(cls, "FORMER", ()):
        return True
    return _is_constant(cls, key) and getattr(cls, key) in (value, _convert(value, None))


def _is_constant(cls: Any, key: str) -> bool:
    return typing.get_origin(_field_types(cls).get(key)) is typing.ClassVar


def list_constants(cls: Any) -> Table:
    """Return the settings that have one value in all systems of a class, by name."""
    names = [name for name in _field_types(cls) if name.islower() and _is_constant(cls, name)]
    return {name: getattr(cls, name) for name in names}


def vary(settings: T, **values: Any) -> T:
    """Return the settings with other values, those of constants too: for ablations and tests."""
    names = {field.name for field in dataclasses.fields(settings)}  # type: ignore[arg-type]
    constants = {name: value for name, value in values.items() if name not in names}
    cls = type(settings)
    if constants:
        cls = type(cls.__name__, (cls,), constants)
    own = {**_to_table(settings), **{n: v for n, v in values.items() if n in names}}
    return cls(**own)


def _describe_unknown(cls: Any, key: str, where: str) -> str:
    """Describe a setting that a dataclass does not have, for an error message."""
    if _is_constant(cls, key) and key.islower():
        return f"[{where}] {key} was removed; it is always {getattr(cls, key)!r} here"
    names = [field.name for field in dataclasses.fields(cls)]
    return f"[{where}] has no setting {key!r}{suggest(key, names)}"


def check_least(settings: object, least: float, *names: str) -> None:
    """Refuse settings below `least`; for a `__post_init__`, as are the next two."""
    for name in names:
        if not getattr(settings, name) >= least:  # refuses nan too
            raise ValueError(f"{name} must be at least {least}, not {getattr(settings, name)}")


def check_most(settings: object, most: int, *names: str) -> None:
    """Refuse settings above `most`, so that a run folder cannot ask for endless work or memory."""
    for name in names:
        if getattr(settings, name) > most:
            raise ValueError(f"{name} must be at most {most:,}, not {getattr(settings, name)}")


def check_widths(settings: object, *names: str) -> None:
    """Refuse layers that no machine can hold."""
    check_most(settings, MAX_WIDTH, *names)


def check_range(settings: object, least: float, most: float, *names: str) -> None:
    """Refuse settings outside `least` to `most`."""
    for name in names:
        if not least <= getattr(settings, name) <= most:
            raise ValueError(f"{name} must be in [{least}, {most}], not {getattr(settings, name)}")


def check_shares(settings: object, *names: str) -> None:
    """Refuse shares outside [0, 1), such as a dropout of 1."""
    for name in names:
        if not 0 <= getattr(settings, name) < 1:
            raise ValueError(f"{name} must be in [0, 1), not {getattr(settings, name)}")


def check_seed(settings: object, name: str = "seed") -> None:
    """Refuse seeds that random generators do not accept."""
    if not 0 <= getattr(settings, name) < 2**32:
        raise ValueError(f"{name} must be from 0 to {2**32 - 1}, not {getattr(settings, name)}")


def _to_table(settings: Any) -> Table:
    """Return the settings by name; inner tables stay dataclasses."""
    return {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}


def suggest(word: str, choices: Sequence[str]) -> str:
    """Return '; did you mean ...?' for a mistyped word, else a list of the choices."""
    if meant := suggest_similar(word, choices, 1):
        return meant
    return f"; it takes {', '.join(choices)}" if choices else "; it has none"


def suggest_similar(word: str, choices: Iterable[str], most: int) -> str:
    """Return '; did you mean ...?' with the nearest choices in any case; '' without one."""
    spelled = {choice.casefold(): choice for choice in choices}
    near = difflib.get_close_matches(word.casefold(), spelled, n=most)
    return f"; did you mean {' or '.join(repr(spelled[one]) for one in near)}?" if near else ""


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value has the type of a setting."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.ClassVar:  # the one value of a setting that was removed
        return False
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
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and abs(value) <= MAX_INT
    if hint is type(None):
        return value is None
    return isinstance(value, hint)


def _convert(value: Any, hint: Any) -> Any:
    """Return the value as the dataclass holds it: floats and tuples."""
    if hint is float:
        return float(value)
    return tuple(value) if isinstance(value, list) else value


def _describe(hint: Any) -> str:
    """Describe a type for an error message."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(a) for a in arguments if a is not type(None))
    if origin is tuple:
        return f"a list of {_describe(arguments[0])}"
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )


def dump(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return tables of plain values as TOML; settings that are None are left out."""
    lines: list[str] = []
    for name, table in tables.items():
        inner = {f"{name}.{key}": value for key, value in table.items() if isinstance(value, dict)}
        lines.append(f"[{name}]")
        lines += [
            f"{key} = {_format_value(value)}"
            for key, value in table.items()
            if value is not None and not isinstance(value, dict)
        ]
        lines += ["", dump(inner)] if inner else [""]
    return "\n".join(lines)


def _format_value(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_format_value, value)) + "]"
    # JSON's strings, numbers and booleans are TOML's, once non-ASCII is kept as it is.
    return json.dumps(value, ensure_ascii=False)
