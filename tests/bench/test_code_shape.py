"""The counts of docs/lab/code-shape.md."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_run_of_shared_lines_is_one_pair_however_long_it_is(monkeypatch, tmp_path):
    """Ten shared lines are three runs of eight; imports and blank lines do not count."""
    shared = [f"x{n} = {n}" for n in range(10)]
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("\n".join(["import math", *shared[:5], "", *shared[5:], "a = 1"]))
    other.write_text("\n".join(["b = 2", *shared]))
    monkeypatch.syspath_prepend(ROOT / "bench")
    code_shape = importlib.import_module("code_shape")
    assert code_shape.count_shared_runs([one, other]) == 1
    assert code_shape.count_shared_runs([one, other], length=11) == 0


def test_look_ups_of_contributing_are_read_and_their_paths_checked(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    code_shape = importlib.import_module("code_shape")
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(code_shape.list_lookups(page)) == 12
    with pytest.raises(SystemExit, match="no_such_file"):
        code_shape.list_lookups(page.replace("runs/folder.py", "runs/no_such_file.py"))
