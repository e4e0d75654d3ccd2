"""The tables of results."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def lines(out: Path) -> dict[str, list[str]]:
    """Cells of the Markdown table by their first one."""
    rows = [row for row in (out / "results.md").read_text().splitlines() if row.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row[1:] for row in cells}


def test_the_table_has_our_rows_beside_quoted_ones(finished):
    record = json.loads((finished / "results.json").read_text())
    rows = {row["name"]: row for row in record["sections"][0]["rows"]}
    table = lines(finished)
    assert list(table) == ["", "---", "floor", "near", "both", "A & B (quoted)"]
    assert table["A & B (quoted)"][0] == "61.50"
    metrics = json.loads((finished / "runs" / "small" / "near" / "metrics.json").read_text())
    assert table["near"][0] == f"{100 * metrics['P@1']:.2f}"
    assert rows["near"]["figures"]["P@1"]["mean"] == pytest.approx(100 * metrics["P@1"])
    assert metrics["corpus"]["documents"] == 12
    text = (finished / "results.md").read_text()
    assert text.startswith("# Small\n\nMade in a hurry.\n")
    assert "12 test" in text
    assert "A & B: quoted from a paper, Table 1" in text
    assert f"{len(os.sched_getaffinity(0))} cores of" in text


def test_names_are_escaped_in_the_page(finished):
    page = (finished / "results.html").read_text()
    assert "A &amp; B (quoted)" in page
    assert "A & B" not in page
