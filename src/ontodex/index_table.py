"""The finished blocks of `ontodex index` as one table: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ontodex.errors import ConfigError, RunError
from ontodex.files import atomic
from ontodex.index_block import SCHEMA
from ontodex.read.columns import cell_of
from ontodex.read.lines import write_lines
from ontodex.read.objects import dump
from ontodex.read.table import write_rows
from ontodex.tables import spreadsheet_safe

DECIMALS = 6  # of a probability in text; Parquet has it as it is


def write_table(parts: Sequence[Path], out: Path) -> None:
    """Write the rows of all parts to `out`, whole or not at all."""
    WRITERS[table_format(out)](parts, out)


def table_format(out: Path) -> str:
    """Which table the name of `out` asks for."""
    packed = out.suffix in (".gz", ".xz", ".bz2")
    format = (out.with_suffix("") if packed else out).suffix.removeprefix(".")
    if format not in WRITERS or (packed and format == "parquet"):
        raise ConfigError(
            f"{out}: its name does not say which table to write",
            hint="end it in .csv, .tsv or .jsonl (with .gz, .xz or .bz2 if you like) or .parquet",
        )
    return format


def _tables(parts: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of each part, one part in memory at a time."""
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


def _rows(parts: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for table in _tables(parts):
        yield from table.to_pylist()


def _cells(row: dict[str, Any]) -> list[str]:
    """Lists as `ontodex convert` writes them; no cell that a spreadsheet would compute."""
    texts = (row["id"], cell_of(row["labels"]), cell_of(row["names"]))
    shares = (f"{share:.{DECIMALS}f}" for share in row["probabilities"])
    return [*map(spreadsheet_safe, texts), "|".join(shares)]


def _write_cells(parts: Sequence[Path], out: Path, *, delimiter: str) -> None:
    write_rows(out, SCHEMA.names, map(_cells, _rows(parts)), delimiter=delimiter)


def _line(row: dict[str, Any]) -> str:
    shares = [round(share, DECIMALS) for share in row["probabilities"]]
    return dump(row | {"probabilities": shares})


def _write_jsonl(parts: Sequence[Path], out: Path) -> None:
    write_lines(out, map(_line, _rows(parts)))


def _write_parquet(parts: Sequence[Path], out: Path) -> None:
    with atomic(out) as file, pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for table in _tables(parts):
            writer.write_table(table)


WRITERS: dict[str, Callable[[Sequence[Path], Path], None]] = {
    "csv": partial(_write_cells, delimiter=","),
    "tsv": partial(_write_cells, delimiter="\t"),
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
