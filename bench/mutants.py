"""Mutation run: how many small faults in the code do the tests notice?

    make mutants                                  40 mutants a folder, about an hour on 2 cores
    python bench/mutants.py --each 200 --folders decide evaluation --out report.md

cosmic-ray proposes the mutants of a folder; a seeded sample of them is applied, one at a time, to a
copy of the repository. All of them meet the test file of their module; the survivors then meet the
folder, the contract and the golden runs of systems that use the module. Mutants that change only
annotations are left out: they cannot change what runs. The report lists every survivor.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from compileall import compile_dir
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

import pytest
from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from ontodex.models import MODELS

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("models", "decide", "evaluation", "training")
NOT_COPIED = (".venv", ".git", ".*_cache", "__pycache__", ".hypothesis", "site", "demo")
SECONDS = 240  # of CPU time; a mutant whose tests take longer is noticed: it hangs
OPERATORS = (
    "ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBinaryOperator_Mul_Div", "ReplaceBinaryOperator_Div_Mul",
    "ReplaceBinaryOperator_FloorDiv_Mul", "ReplaceBinaryOperator_Mod_Mul",
    "ReplaceBinaryOperator_Pow_Mul", "ReplaceBinaryOperator_BitAnd_BitOr",
    "ReplaceBinaryOperator_BitOr_BitAnd",
    "ReplaceComparisonOperator_Lt_LtE", "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_Gt_GtE", "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Gt_Lt", "ReplaceComparisonOperator_Lt_Gt",
    "ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Invert",
    "ReplaceUnaryOperator_Delete_Not", "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
    "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "NumberReplacer",
    "ZeroIterationForLoop",
)  # fmt: skip
# What most tests load; each takes seconds.
LIBRARIES = ("torch", "scipy.optimize", "sklearn.svm", "pyarrow.parquet", "faiss")
# A line like `hidden: int = 256` is a default of the settings, which no test should pin.
SETTING = re.compile(r"^\s*\w+: [\w\[\], |.]+ = ")


@dataclass(frozen=True)
class Place:
    """A place where an operator may change a module."""

    module: Path  # below the root of the repository
    line: int
    operator: str
    occurrence: int


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    place: Place
    before: str
    after: str
    code: str


class _Positions(Visitor):  # type: ignore[misc]  # cosmic-ray has no types
    """Collects the line of every position that an operator may change."""

    def __init__(self, operator: Any) -> None:
        self.operator, self.lines = operator, list[int]()

    def visit(self, node: Any) -> Any:
        self.lines += [node.start_pos[0] for _ in self.operator.mutation_positions(node)]
        return node


def find_places(module: Path) -> Iterator[Place]:
    """Yield every place of a module where an operator applies."""
    code = (ROOT / module).read_text()
    rows, tree = code.split("\n"), get_ast(code)
    for name in OPERATORS:
        positions = _Positions(get_operator(f"core/{name}")())
        positions.walk(tree)
        for occurrence, line in enumerate(positions.lines):
            if not SETTING.match(rows[line - 1]):
                yield Place(module, line, name, occurrence)


def make_mutant(place: Place) -> Mutant | None:
    """Apply the operator; None where the change is in annotations alone, which nothing reads."""
    code = (ROOT / place.module).read_text()
    text = mutate_code(code, get_operator(f"core/{place.operator}")(), place.occurrence)
    try:
        if text is None or _without_annotations(text) == _without_annotations(code):
            return None
    except SyntaxError:
        return None
    before, after = _first_difference(code, text)
    return Mutant(place, before, after, text)


def _without_annotations(code: str) -> str:
    """Return a dump of the syntax tree without annotations and without the marks `*` and `/` of
    signatures, which a binary operator takes for its own."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.arguments):
            node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.defaults = [*node.defaults, *filter(None, node.kw_defaults)]
            node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(0)
    return ast.dump(tree)


def _first_difference(code: str, text: str) -> tuple[str, str]:
    pairs = zip(code.split("\n"), text.split("\n"), strict=False)
    return next(((one.strip(), two.strip()) for one, two in pairs if one != two), ("", ""))


def sample_mutants(folder: str, count: int, seed: int) -> list[Mutant]:
    """Return a seeded sample: lines are drawn first, then one mutant of each, so that a line with
    many operators counts no more than another."""
    modules = sorted((ROOT / "src/ontodex" / folder).rglob("*.py"))
    by_line: dict[tuple[Path, int], list[Place]] = {}
    for path in modules:
        if "kernels" not in path.parts:  # they run on a GPU only
            for place in find_places(path.relative_to(ROOT)):
                by_line.setdefault((place.module, place.line), []).append(place)
    rng = random.Random(seed)
    lines = sorted(by_line)
    rng.shuffle(lines)
    mutants: list[Mutant] = []
    for line in lines:
        if len(mutants) < count and (mutant := make_mutant(rng.choice(by_line[line]))):
            mutants.append(mutant)
    return mutants


def select_tests(module: Path) -> list[list[str]]:
    """Return the test runs of a module, quickest first: its own file, those of its folder, the
    rules of the tree, the contract and the golden runs."""
    inside = module.relative_to("src/ontodex")
    folder = ROOT / "tests" / inside.parent
    contract = "tests/models/test_every_model.py"
    files = [str(path.relative_to(ROOT)) for path in sorted(folder.glob("test_*.py"))]
    own = [file for file in files if Path(file).stem == f"test_{inside.stem}"]
    others = [file for file in files if file not in (*own, contract)]
    runs = [run for run in (own, others, ["tests/test_architecture.py"]) if run]
    systems = find_systems_using(module) if inside.parts[0] == "models" else []
    if systems:
        names = " or ".join(f"[{name}]" for name in systems)
        runs += [[contract, "-k", names], ["tests/test_golden.py", "-k", names]]
    return runs


def find_systems_using(module: Path, most: int = 2) -> list[str]:
    """Return systems that import a module, directly or through others; the nearest first."""
    imports = _read_imports()
    home = {name: place.split(":")[0] for name, place in MODELS.items()}
    wanted = ".".join(module.relative_to("src").with_suffix("").parts).removesuffix(".__init__")
    reached, found = {wanted}, list[str]()
    while len(found) < most:
        found += [name for name in MODELS if home[name] in reached and name not in found]
        nearer = {name for name, targets in imports.items() if targets & reached} - reached
        if not nearer:
            break
        reached |= nearer
    return found[:most]


@cache
def _read_imports() -> dict[str, set[str]]:
    """Return what each module of `ontodex.models` imports."""
    imports = {}
    for path in (ROOT / "src/ontodex/models").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        froms = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        imports[name.removesuffix(".__init__")] = {node.module or "" for node in froms}
    return imports


def is_noticed(mutant: Mutant, tests: list[str], copy: Path) -> bool:
    """Return whether one test run fails with a mutant in the copy."""
    target = copy / mutant.place.module
    original = target.read_text()
    target.write_text(mutant.code)
    try:
        return do_tests_fail(tuple(tests), copy)
    finally:
        target.write_text(original)


def check_baseline(failed: set[tuple[str, ...]], copy: Path) -> None:
    """Stop where test runs that failed with a mutant fail without one too. Files of one folder run
    together, because loading the package takes longer than most tests."""
    folders: dict[Path, set[str]] = {}
    for file in {file for tests in failed if "-k" not in tests for file in tests}:
        folders.setdefault(Path(file).parent, set()).add(file)
    runs = [tuple(sorted(files)) for files in folders.values()]
    runs += [tests for tests in failed if "-k" in tests]
    failing = [" ".join(tests) for tests in sorted(runs) if do_tests_fail(tests, copy)]
    if failing:
        raise SystemExit("these tests fail without a mutant:\n" + "\n".join(failing))


def do_tests_fail(tests: tuple[str, ...], copy: Path) -> bool:
    """Run tests in the copy; tests that take too long have failed.

    The child is forked, so it need not load the libraries again.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            code = _run_tests(tests, copy)
        finally:  # nothing else of this process may run twice
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) not in (0, 5)  # 5: nothing was selected


def _run_tests(tests: tuple[str, ...], copy: Path) -> int:
    """Return the exit code of pytest in this process, with the modules of the copy."""
    # CPU time, not wall time: another program on the machine must not kill a mutant.
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
    sys.path.insert(0, str(copy / "src"))
    for name in [name for name in sys.modules if name.split(".")[0] == "ontodex"]:
        del sys.modules[name]
    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests]))


def run(folders: list[str], each: int, seed: int, out: Path) -> None:
    """Try the mutants of every folder and write the report after each test run."""
    for library in LIBRARIES:
        import_module(library)
    with tempfile.TemporaryDirectory(prefix="ontodex-mutants-") as temporary:
        copy = Path(temporary) / "repository"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        # By content: a mutant may have the size and the second of the file before it.
        compile_dir(copy / "src", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        tried: dict[str, list[tuple[Mutant, bool]]] = {}
        for folder in folders:
            for results in try_mutants(sample_mutants(folder, each, seed), copy):
                tried[folder] = results
                out.write_text(report(tried, each, seed))


def try_mutants(mutants: list[Mutant], copy: Path) -> Iterator[list[tuple[Mutant, bool]]]:
    """Yield after each test run what was tried so far. Every mutant meets its quickest tests first;
    the survivors of all of them meet the next ones, so that a run ended early covers the sample."""
    noticed: dict[Mutant, bool] = {}
    rounds = {mutant: select_tests(mutant.place.module) for mutant in mutants}
    for number in range(max(map(len, rounds.values()), default=0)):
        failed: set[tuple[str, ...]] = set()
        for mutant, runs in rounds.items():
            if number < len(runs) and not noticed.get(mutant):
                tests, place, started = runs[number], mutant.place, time.monotonic()
                noticed[mutant] = is_noticed(mutant, tests, copy)
                failed |= {tuple(tests)} if noticed[mutant] else set()
                word = "noticed" if noticed[mutant] else "survived"
                line = f"{word:8} {time.monotonic() - started:4.0f} s  {place.module}:{place.line}"
                print(f"{line} {place.operator}  {' '.join(tests)}", flush=True)
                yield list(noticed.items())
        check_baseline(failed, copy)


def report(tried: dict[str, list[tuple[Mutant, bool]]], each: int, seed: int) -> str:
    """Return the score of every folder and a table of the survivors, as Markdown."""
    lines = [f"`python bench/mutants.py --each {each} --seed {seed}`", ""]
    lines += ["| folder | mutants | noticed | score |", "|---|---|---|---|"]
    for folder, results in tried.items():
        noticed = sum(was_noticed for _, was_noticed in results)
        score = f"{100 * noticed / max(1, len(results)):.0f} %"
        lines.append(f"| `{folder}/` | {len(results)} | {noticed} | {score} |")
    lines += ["", "| survivor | operator | before | after |", "|---|---|---|---|"]
    for results in tried.values():
        for mutant, was_noticed in results:
            if not was_noticed:
                before, after = (text.replace("|", "\\|") for text in (mutant.before, mutant.after))
                place = f"{mutant.place.module.relative_to('src/ontodex')}:{mutant.place.line}"
                lines.append(f"| {place} | {mutant.place.operator} | `{before}` | `{after}` |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folders", nargs="+", default=list(FOLDERS))
    parser.add_argument("--each", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("mutants.md"))
    arguments = parser.parse_args()
    run(arguments.folders, arguments.each, arguments.seed, arguments.out)


if __name__ == "__main__":
    main()
