"""The tables: formats, formulas, damaged parts."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from index_jobs import DOCS, lines
from ontodex.errors import ConfigError, RunError
from ontodex.io.tables import escape_formula
from ontodex.runs.index.block import compute_block
from ontodex.runs.index.table import read_stored, table_format, write_table
from ontodex.types import Doc


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.jsonl.xz", "a.parquet"])
def test_the_file_name_determines_the_table_format(name):
    assert table_format(Path(name)) == name.split(".")[1]


@pytest.mark.parametrize("name", ["a", "a.txt", "a.xml", "a.parquet.gz"])
def test_a_file_name_without_a_table_format_is_refused(name):
    with pytest.raises(ConfigError, match="which table"):
        table_format(Path(name))


def test_all_table_formats_have_the_same_rows(task, tmp_path):
    part = tmp_path / "0.arrow"
    part.write_bytes(compute_block(replace(task, threshold=0.0), DOCS))
    for name in ("t.csv", "t.tsv.gz", "t.jsonl", "t.parquet"):
        write_table([*read_stored(str(part)), *read_stored(str(part))], tmp_path / name)
    expected = lines(tmp_path / "t.jsonl")
    assert len(expected) == 48
    assert open_table(tmp_path / "t.csv", ",") == expected
    assert open_table(tmp_path / "t.tsv.gz", "\t") == expected
    for row, right in zip(pq.read_table(tmp_path / "t.parquet").to_pylist(), expected, strict=True):
        assert row["probabilities"] == pytest.approx(right["probabilities"], abs=1e-6)
        assert row | {"probabilities": 0} == right | {"probabilities": 0}


def open_table(path: Path, delimiter: str) -> list[dict[str, object]]:
    """Rows of a text table with their lists taken apart again."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        found: list[dict[str, object]] = []
        for row in csv.DictReader(file, delimiter=delimiter):
            cells = {name: cell.removeprefix("'") for name, cell in row.items()}
            texts = {name: split(cells[name]) for name in ("labels", "names", "notations")}
            shares = [float(share) for share in cells["probabilities"].split("|")]
            found.append({"id": cells["id"], **texts, "probabilities": shares})
        return found


def split(cell: str) -> list[str]:
    if not cell:
        return []
    return list(json.loads(cell)) if cell.startswith("[") else cell.split("|")


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", " =1", 12 * " " + "=1"])
def test_no_cell_is_a_formula(cell):
    assert escape_formula(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["", "a=1", "Fish", "0.5|0.25", "'quoted"])
def test_other_cells_stay_as_they_are(cell):
    assert escape_formula(cell) == cell


def test_hostile_ids_and_names_are_not_formulas_in_the_table(task, tmp_path):
    part = tmp_path / "0.arrow"
    part.write_bytes(
        compute_block(replace(task, limit=1, threshold=0.0), [Doc("=cmd", DOCS[1].fields)])
    )
    write_table(read_stored(str(part)), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes().splitlines()[1].startswith(b"'=cmd,oak,'=Oak,")


def test_a_damaged_part_is_named(tmp_path):
    (tmp_path / "0.arrow").write_bytes(b"ARROW1 and then nothing")
    with pytest.raises(RunError, match=r"0\.arrow: a finished block or part that cannot be read"):
        write_table(read_stored(str(tmp_path / "0.arrow")), tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()


def test_a_part_is_read_back_in_both_formats_some_columns_only(task, tmp_path):
    block = tmp_path / "0.arrow"
    block.write_bytes(compute_block(replace(task, threshold=0.0), DOCS))
    for name in ("p.jsonl", "p.parquet"):
        write_table(read_stored(str(block)), tmp_path / name)
        assert pa.concat_tables(read_stored(str(tmp_path / name), ["id"])).to_pylist() == [
            {"id": doc.id} for doc in DOCS
        ]
        write_table(read_stored(str(tmp_path / name)), tmp_path / "again.jsonl")
        assert lines(tmp_path / "again.jsonl") == lines(tmp_path / "p.jsonl")
