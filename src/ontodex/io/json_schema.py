"""Read the JSON files of a run folder into dataclasses that declare their fields.

    @dataclass(frozen=True)
    class About:
        n_labels: int                        required
        kind: Literal["text", "sparse"] = "text"     optional
        calibration: Calibration             a class with `from_json`

`load_json` refuses a file with a missing or unknown field, a value of another type, a number that
is not finite or has more than 64 bits, and nesting that is too deep. A `__post_init__` checks
ranges and raises ValueError with a sentence. Every error is a RunError that names file and field.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ontodex.errors import RunError

T = TypeVar("T")

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape of one half of a pair, or of both
MAX_DEPTH = 50  # of lists and objects inside each other
MAX_BYTES = 256 * 2**20  # of a file; thresholds of a million labels take 30 MiB
MAX_TABLE_BYTES = 16 * 2**20  # of a manifest, metrics or settings, which may have no digest
_LARGEST = 2**63
_HINT = "copy the run folder again, or train again"


def load_json(path: Path, cls: type[T]) -> T:
    """Return the contents of a JSON file as the type that declares them, mostly a dataclass."""
    parsed: T = _parse(read_json(path), cls, str(path))
    return parsed


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """Return the value of a JSON file whose fields are not declared.

    Numbers are finite and fit into 64 bits, texts have no half of a surrogate pair, and lists and
    objects are nested at most `MAX_DEPTH` deep, so that no later step fails because of them.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
        if len(raw) > max_bytes:
            raise RunError(f"{path}: has more than {max_bytes // 2**20:,} MiB", hint=_HINT)
        text = raw.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read as JSON ({error})", hint=_HINT) from error
    except RecursionError:
        raise RunError(f"{path}: is nested too deeply", hint=_HINT) from None
    _check_limits(path, value)
    return value


def read_table(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file whose fields are checked later, such as settings."""
    value = read_json(path, MAX_TABLE_BYTES)
    if not isinstance(value, dict):
        raise _wrong(str(path), "an object", value)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"the number {name} is not finite")


def _check_limits(path: Path, value: Any) -> None:
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise RunError(f"{path}: is nested more than {MAX_DEPTH} levels deep", hint=_HINT)
        for one in level:
            if isinstance(one, int | float) and not abs(one) < _limit_of(one):
                raise RunError(f"{path}: holds a number that is too large", hint=_HINT)
        level = [inner for one in level for inner in _list_inner(one)]
        depth += 1


def _limit_of(number: int | float) -> float:
    return math.inf if isinstance(number, float) else _LARGEST


def _list_inner(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def parse_record(cls: type[T], value: Any, where: str) -> T:
    """Return a JSON object as a dataclass; `where` names it in messages."""
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name, field in fields.items():
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        if name not in value and not has_default:
            raise RunError(f"{where}: {name!r} is missing", hint=_HINT)
    for name in value:
        if name not in fields:
            raise RunError(
                f"{where}: {name[:40]!r} is not expected; expected are {', '.join(fields)}",
                hint=_HINT,
            )
    hints = _get_types(typing.cast(Any, cls))
    parsed = {name: _parse(one, hints[name], f"{where}: {name}") for name, one in value.items()}
    try:
        return cls(**parsed)
    except ValueError as error:  # of its __post_init__
        raise RunError(f"{where}: {error}", hint=_HINT) from error


@cache
def _get_types(cls: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


_PLAIN = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "an object",
}


def _parse(value: Any, hint: Any, where: str) -> Any:
    """Return a value as its declared type holds it."""
    if hint is Any:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return _parse_plain(value, hint, where)
    if origin is typing.Literal:
        if not isinstance(value, str | int) or value not in arguments:
            raise _wrong(where, f"one of {', '.join(map(repr, arguments))}", value)
        return value
    if origin in (typing.Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        return None if value is None else _parse(value, others[0], where)
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        return {key: _parse(one, arguments[1], f"{where}.{key[:40]}") for key, one in value.items()}
    if not isinstance(value, list):
        raise _wrong(where, "a list", value)
    if arguments[0] in (int, float) and {type(one) for one in value} <= {int, arguments[0]}:
        return origin(map(arguments[0], value))  # many numbers, without a text for each place
    return origin(_parse(one, arguments[0], f"{where}[{i}]") for i, one in enumerate(value))


def _parse_plain(value: Any, hint: Any, where: str) -> Any:
    if hint in _PLAIN:
        accepted = (int, float) if hint is float else hint
        if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
            raise _wrong(where, _PLAIN[hint], value)
        return float(value) if hint is float else value
    if hasattr(hint, "from_json"):
        try:
            return hint.from_json(value)
        except RunError as error:
            raise RunError(f"{where}: {error}", hint=_HINT) from error
    return parse_record(hint, value, where)


def _wrong(where: str, expected: str, value: Any) -> RunError:
    return RunError(f"{where} must be {expected}, not {value!r:.60}", hint=_HINT)
