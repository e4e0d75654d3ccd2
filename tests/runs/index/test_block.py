"""The rows of one block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from index_jobs import DOCS, lines
from ontodex.errors import RunError
from ontodex.runs.index.block import compute_block
from ontodex.runs.index.table import read_stored, write_table


def rows_of(part: bytes, path: Path) -> list[dict[str, object]]:
    """A part as JSON lines would show it."""
    path.with_suffix(".arrow").write_bytes(part)
    write_table(read_stored(str(path.with_suffix(".arrow"))), path)
    return lines(path)


def test_a_threshold_replaces_the_decision_and_a_limit_cuts(run, task, tmp_path):
    out = tmp_path / "rows.jsonl"
    everything = rows_of(compute_block(replace(task, threshold=0.0), DOCS), out)
    assert [len(row["labels"]) for row in everything] == [3] * 24
    two = rows_of(compute_block(replace(task, threshold=0.0, limit=2), DOCS), out)
    assert [row["labels"] for row in two] == [row["labels"][:2] for row in everything]
    least = sorted(p for row in everything for p in row["probabilities"])[30]
    high = rows_of(compute_block(replace(task, threshold=least), DOCS), out)
    assert sum(len(row["labels"]) for row in high) < 72
    assert min(p for row in high for p in row["probabilities"]) >= least - 1e-6


def test_names_come_in_the_language_asked_for(task, tmp_path):
    rows = rows_of(
        compute_block(replace(task, language="de", limit=1), DOCS[:1]), tmp_path / "r.jsonl"
    )
    assert rows[0]["names"] == ["Fische"]


def test_the_rows_of_a_block_do_not_depend_on_other_blocks(task, tmp_path):
    whole = rows_of(compute_block(task, DOCS), tmp_path / "whole.jsonl")
    parts = [
        rows_of(compute_block(task, DOCS[i : i + 5]), tmp_path / "p.jsonl") for i in range(0, 24, 5)
    ]
    assert [row for part in parts for row in part] == whole


def test_a_run_that_changed_since_the_job_began_is_not_used(task):
    with pytest.raises(RunError, match="not the run"):
        compute_block(replace(task, manifest="0" * 64), DOCS)
