"""Parse and format sparse rows, `index:value index:value ...`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from ontodex.errors import DataError
from ontodex.io.files import read_lines
from ontodex.types.record_batches import MAX_FEATURES

R = TypeVar("R")

_TOKEN = re.compile(r"[0-9]+:[-+0-9.eE]+")


def parse_features(
    text: str, *, first: int = 0, width: int | None = None, what: str = "feature"
) -> dict[int, float]:
    """Return {index: value}, counted from 0; `first` is the first index of the format."""
    tokens = text.split()
    try:
        pairs = [token.split(":") for token in tokens]
        features = {int(index) - first: float(value) for index, value in pairs}
    except ValueError:
        wrong = next((token for token in tokens if not _TOKEN.fullmatch(token)), text)
        raise DataError(f"{wrong[:40]!r} is not index:value") from None
    if len(features) < len(tokens):
        raise DataError(f"a {what} is given twice ({len(tokens) - len(features)} too many)")
    if features and min(features) < 0:
        raise DataError(f"{what} {min(features) + first}, but the first one is {first}")
    if features and max(features) >= (MAX_FEATURES if width is None else width):
        limit = "the limit is" if width is None else "the header says"
        raise DataError(f"{what} {max(features)}, but {limit} {width or MAX_FEATURES:,} {what}s")
    if not all(map(math.isfinite, features.values())):
        raise DataError(f"a {what} value that is not finite")
    return features


def format_features(features: Mapping[int, float], *, first: int = 0) -> str:
    """Return the row as text; nine digits are exact for 32-bit floats."""
    return " ".join(f"{index + first}:{features[index]:.9g}" for index in sorted(features))


def read_header(path: Path, names: str) -> list[int]:
    """Return the whole numbers of the first line, as many as there are `names`."""
    line = next((text for _, text in read_lines(path)), "")
    if not is_header(line, len(names.split())):
        raise DataError(f"the first line must be {names!r}, not {line[:60]!r}", path=path, line=1)
    return [int(number) for number in line.split()]


def is_header(line: str, count: int) -> bool:
    """Return whether a line has `count` whole numbers."""
    return re.fullmatch(rf"[0-9]{{1,18}}(?:\s+[0-9]{{1,18}}){{{count - 1}}}\s*", line) is not None


def split_row(line: str) -> tuple[str, str]:
    """Return the labels and features of a row `l1,l2 index:value ...`; either may be empty."""
    labels, _, features = line.partition(" ")
    return ("", line) if ":" in labels else (labels, features)


def is_row(line: str) -> bool:
    """Return whether a line is such a row."""
    labels, features = split_row(line)
    return re.fullmatch(r"[0-9,]*", labels) is not None and all(
        map(_TOKEN.fullmatch, features.split())
    )


def check_row_count(
    rows: Iterator[tuple[int, R]], expected: int, path: Path
) -> Iterator[tuple[int, R]]:
    """Yield the rows; raise a DataError at the end if their number is not that of the header."""
    count = 0
    for row in rows:
        count += 1
        yield row
    if count != expected:
        raise DataError(
            f"{count:,} rows, but the header says {expected:,}",
            path=path,
            hint="the file is cut off or its header is wrong",
        )
