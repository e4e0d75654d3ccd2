"""The tables of `ontodex index`: write rows as CSV, TSV, JSON lines or Parquet; read parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ontodex.corpora.parsing.columns import format_strings
from ontodex.corpora.parsing.json_objects import dump_json
from ontodex.corpora.parsing.records import write_lines
from ontodex.corpora.parsing.text_table import write_rows
from ontodex.errors import ConfigError, RunError
from ontodex.io.files import open_atomic
from ontodex.io.storage import fetch_file
from ontodex.io.tables import escape_formula
from ontodex.runs.index.block import SCHEMA

_LINES = 1_000  # of a JSONL part in memory
DECIMALS = 6  # of a probability in text; Parquet keeps all of them


def write_table(rows: Iterable[pa.Table], out: Path) -> None:
    """Write all rows to `out`, completely or not at all; a few of them are in memory."""
    WRITERS[table_format(out)](rows, out)


def table_format(out: Path) -> str:
    """Return the table format that the name of `out` asks for."""
    packed = out.suffix in (".gz", ".xz", ".bz2")
    format = (out.with_suffix("") if packed else out).suffix.removeprefix(".")
    if format not in WRITERS or (packed and format == "parquet"):
        raise ConfigError(
            f"{out}: its name does not say which table to write",
            hint="end it in .csv, .tsv or .jsonl (with .gz, .xz or .bz2 if you like) or .parquet",
        )
    return format


def read_stored(part: str, columns: Sequence[str] = SCHEMA.names) -> Iterator[pa.Table]:
    """Yield the rows of a finished block or part, wherever it is, some at a time."""
    with fetch_file(part) as path:
        try:
            yield from READERS[path.suffix](path, columns)
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise RunError(
                f"{part}: a finished block or part that cannot be read ({error})",
                hint="remove that file and start the same command again",
            ) from error


def _read_arrow(part: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    with pa.memory_map(str(part)) as source:
        yield pa.ipc.open_file(source).read_all().select(columns)


def _read_parquet(part: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    with pq.ParquetFile(part) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=list(columns))


def _read_jsonl(part: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    with part.open("rb") as file:
        while lines := list(islice(file, _LINES)):
            yield pa.Table.from_pylist([json.loads(line) for line in lines], schema=schema)


def _iterate_rows(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    for table in tables:
        yield from table.to_pylist()


def _format_cells(row: dict[str, Any]) -> list[str]:
    """Return lists as `ontodex convert` writes them; no cell is a formula for a spreadsheet."""
    texts = (row["id"], *(format_strings(row[name]) for name in ("labels", "names", "notations")))
    shares = (f"{share:.{DECIMALS}f}" for share in row["probabilities"])
    return [*map(escape_formula, texts), "|".join(shares)]


def _write_cells(tables: Iterable[pa.Table], out: Path, *, delimiter: str) -> None:
    write_rows(out, SCHEMA.names, map(_format_cells, _iterate_rows(tables)), delimiter=delimiter)


def _format_line(row: dict[str, Any]) -> str:
    shares = [round(share, DECIMALS) for share in row["probabilities"]]
    return dump_json(row | {"probabilities": shares})


def _write_jsonl(tables: Iterable[pa.Table], out: Path) -> None:
    write_lines(out, map(_format_line, _iterate_rows(tables)))


def _write_parquet(tables: Iterable[pa.Table], out: Path) -> None:
    with open_atomic(out) as file, pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


WRITERS: dict[str, Callable[[Iterable[pa.Table], Path], None]] = {
    "csv": partial(_write_cells, delimiter=","),
    "tsv": partial(_write_cells, delimiter="\t"),
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
PART_FORMATS = ("parquet", "jsonl")
READERS: dict[str, Callable[[Path, Sequence[str]], Iterator[pa.Table]]] = {
    ".arrow": _read_arrow,
    ".parquet": _read_parquet,
    ".jsonl": _read_jsonl,
}
