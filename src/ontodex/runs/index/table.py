"""The finished blocks of `ontodex index` as one table: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
from ontodex.io.tables import escape_formula
from ontodex.runs.index.block import SCHEMA

DECIMALS = 6  # of a probability in text; Parquet keeps all of them


def write_table(parts: Sequence[Path], out: Path) -> None:
    """Write the rows of all parts to `out`, completely or not at all."""
    WRITERS[table_format(out)](parts, out)


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


def _read_parts(parts: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield the rows of each part, one part in memory at a time."""
    for part in parts:
        try:
            with pa.memory_map(str(part)) as source:
                table = pa.ipc.open_file(source).read_all()
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                f"{part}: a finished block that cannot be read ({error})",
                hint="remove that file and start the same command again",
            ) from error
        yield table


def _read_rows(parts: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for table in _read_parts(parts):
        yield from table.to_pylist()


def _format_cells(row: dict[str, Any]) -> list[str]:
    """Return lists as `ontodex convert` writes them; no cell is a formula for a spreadsheet."""
    texts = (row["id"], *(format_strings(row[name]) for name in ("labels", "names", "notations")))
    shares = (f"{share:.{DECIMALS}f}" for share in row["probabilities"])
    return [*map(escape_formula, texts), "|".join(shares)]


def _write_cells(parts: Sequence[Path], out: Path, *, delimiter: str) -> None:
    write_rows(out, SCHEMA.names, map(_format_cells, _read_rows(parts)), delimiter=delimiter)


def _format_line(row: dict[str, Any]) -> str:
    shares = [round(share, DECIMALS) for share in row["probabilities"]]
    return dump_json(row | {"probabilities": shares})


def _write_jsonl(parts: Sequence[Path], out: Path) -> None:
    write_lines(out, map(_format_line, _read_rows(parts)))


def _write_parquet(parts: Sequence[Path], out: Path) -> None:
    with open_atomic(out) as file, pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for table in _read_parts(parts):
            writer.write_table(table)


WRITERS: dict[str, Callable[[Sequence[Path], Path], None]] = {
    "csv": partial(_write_cells, delimiter=","),
    "tsv": partial(_write_cells, delimiter="\t"),
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
