"""Every file of bench/hostile.py is refused with a sentence, or read, within 300 MB.

The child process limits its own memory, so a file that needs more ends it, and the test.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile_files", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


hostile = load(ROOT / "bench" / "hostile.py")


@pytest.mark.parametrize("case", hostile.CASES, ids=lambda case: case.name)
def test_hostile_file_is_refused_or_read_within_the_memory(
    case: hostile.Case, tmp_path: Path
) -> None:
    found = hostile.try_case(case, tmp_path)
    assert found["outcome"] == case.outcome, found["says"]
    assert case.says in found["says"]
    if case.outcome == "refused":
        assert found["says"].startswith(str(tmp_path))


@pytest.mark.slow
def test_a_reader_that_holds_too_much_is_noticed(tmp_path: Path) -> None:
    # Twelve titles of 30 MB are each allowed; the child keeps all of them: 360 MB.
    title = [b"<ArticleTitle>", b"x" * (30 * 2**20), b"</ArticleTitle>"]
    case = hostile.Case("many titles", "read", lambda: [b"<r>", *(title * 12), b"</r>"])
    try:
        outcome = hostile.try_case(case, tmp_path)["outcome"]
    except subprocess.CalledProcessError:
        outcome = "died"
    assert outcome != "read"
