"""The shape of the code: files a folder, lines a package, lengths, settings a system, look-ups.

python bench/code_shape.py                    prints the tables of docs/lab/code-shape.md
python bench/code_shape.py suggest RUN TEXT   runs a command, and lists the files that it visits
"""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ontodex.cli import main as run_command
from ontodex.io.tables import format_markdown
from ontodex.models import MODELS
from ontodex.runs.settings_reference import find_settings

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "ontodex"


def function_lengths(path: Path) -> Iterator[int]:
    """Yield the lines of every function of a file, its decorators left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def count_shared_runs(paths: Iterable[Path], length: int = 8) -> int:
    """Count the pairs of places that share a run of lines; imports and blank lines do not count."""
    places: defaultdict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path in paths:
        lines = [line.strip() for line in path.read_text().splitlines()]
        lines = [line for line in lines if line and not line.startswith(("import ", "from "))]
        for start in range(len(lines) - length + 1):
            places[tuple(lines[start : start + length])].append((path, start))
    pairs = {pair for found in places.values() for pair in combinations(found, 2)}
    # A longer run is one pair: it is counted where it starts.
    return sum(((a, i - 1), (b, j - 1)) not in pairs for (a, i), (b, j) in pairs)


def count_lines(folder: Path) -> int:
    """Return the lines of all files of a folder."""
    return sum(path.read_text().count("\n") for path in folder.rglob("*.py"))


def list_lookups(page: str) -> list[list[str]]:
    """Return the rows of the table of look-ups in CONTRIBUTING.md, each with its path checked."""
    table = page.split("| where is | path |\n|---|---|\n")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    missing = [path for _, path in rows if not (ROOT / path.split("`")[1]).exists()]
    if missing:
        raise SystemExit(f"CONTRIBUTING.md names paths that do not exist: {missing}")
    return rows


def has_own_tests(module: Path) -> bool:
    """Return whether a test file mirrors the module."""
    folder = ROOT / "tests" / module.parent.relative_to(PACKAGE)
    return (folder / f"test_{module.stem}.py").exists()


def list_visited(arguments: list[str]) -> list[str]:
    """Run a command of ontodex and return the files in which a function of it ran."""
    visited: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # not a module or class body
        if is_function and event == "call":
            visited.add(frame.f_code.co_filename)

    sys.argv[1:] = arguments
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run_command()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    inside = {Path(name) for name in visited if Path(name).is_relative_to(PACKAGE)}
    return sorted(str(path.relative_to(PACKAGE)) for path in inside)


def print_tables() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    folders = Counter(str(path.parent.relative_to(PACKAGE.parent)) for path in paths)
    lines = {path: path.read_text().count("\n") for path in paths}
    longest = max(paths, key=lambda path: lines[path])
    lengths = np.array([length for path in paths for length in function_lengths(path)])
    percentiles = [int(np.percentile(lengths, share)) for share in (50, 90, 100)]
    mirrored = [has_own_tests(path) for path in paths if not path.stem.startswith("__")]
    settings = {name: len(find_settings(name)) for name in MODELS}
    packages = sorted(path.parent for path in (PACKAGE / "models").rglob("__init__.py"))[1:]
    lookups = list_lookups((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    tables = [
        [["folder", "files"], *([folder, str(n)] for folder, n in sorted(folders.items()))],
        [
            ["measure", "value"],
            ["files", str(len(paths))],
            ["lines", f"{sum(lines.values()):,}"],
            ["functions", f"{len(lengths):,}"],
            ["function length, p50 / p90 / max", " / ".join(map(str, percentiles))],
            ["longest file", f"{longest.relative_to(PACKAGE)}, {lines[longest]} lines"],
            ["pairs of places that share eight lines", str(count_shared_runs(paths))],
            ["modules with a test file of their own", f"{sum(mirrored)} of {len(mirrored)}"],
        ],
        [["system", "settings"], *([name, str(n)] for name, n in settings.items())],
        [
            ["package of models/", "lines"],
            *([folder.name, f"{count_lines(folder):,}"] for folder in packages),
        ],
        [["where is", "path"], *lookups],
    ]
    sys.stdout.write("\n\n".join(map(format_markdown, tables)) + "\n")


def main() -> None:
    if not sys.argv[1:]:
        print_tables()
        return
    files = list_visited(sys.argv[1:])
    sys.stdout.write(f"{len(files)} files: {' '.join(files)}\n")


if __name__ == "__main__":
    main()
