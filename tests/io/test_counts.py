"""Numbers of things: one thing is never "1 documents"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import ontodex
from ontodex.io.counts import format_count
from ontodex.serve.learn import LearnResult, Quality

PACKAGE = Path(ontodex.__file__).parent
THINGS = "documents|labels|concepts|thresholds|runs|decisions|members|texts|inputs|files"
IN_TEXT = re.compile(rf" (?:(?:new|dev|training|true|decided|rejected) )?(?:{THINGS})\b")
IN_LOG = re.compile(rf"%[sd](?:{IN_TEXT.pattern})")
# The numbers there are limits, or are always above 1.
ABOVE_ONE = {
    "corpora/noise.py", "corpora/extract_process.py", "models/trees/forest.py",
    "ontology/graph.py", "ontology/table.py", "runs/folder.py", "runs/index/inputs.py",
    "runs/index/parts.py", "runs/languages.py", "runs/recipe.py", "runs/run.py",
    "training/loop.py",
}  # fmt: skip


def is_number(part: ast.expr) -> bool:
    """Return whether a part of an f-string is written as a number, and is not a constant."""
    if not isinstance(part, ast.FormattedValue):
        return False
    is_length = isinstance(part.value, ast.Call) and ast.unparse(part.value.func) == "len"
    has_commas = part.format_spec is not None and "','" in ast.unparse(part.format_spec)
    is_constant = ast.unparse(part.value).rpartition(".")[2].isupper()
    return (is_length or has_commas) and not is_constant


def find_plurals(source: str) -> list[str]:
    """Return the texts of a module in which a plural follows a number."""
    tree = ast.parse(source)
    internal = {
        id(node)
        for error in ast.walk(tree)
        if isinstance(error, ast.Raise) and "ValueError" in ast.unparse(error)
        for node in ast.walk(error)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in internal:
            found += [
                str(after.value)
                for number, after in zip(node.values, node.values[1:], strict=False)
                if isinstance(after, ast.Constant)
                and is_number(number)
                and IN_TEXT.match(str(after.value))
            ]
        elif isinstance(node, ast.Constant) and IN_LOG.search(str(node.value)):
            found.append(str(node.value))
    return found


def test_a_number_takes_the_form_of_its_noun():
    assert format_count(1, "document") == "1 document"
    assert format_count(0, "document") == "0 documents"
    assert format_count(1200, "entry", "entries") == "1,200 entries"


def test_no_text_of_the_package_has_a_plural_that_a_one_may_precede():
    assert find_plurals('f"{n:,} dev documents"') == [" dev documents"]
    assert find_plurals('log("%s documents")') == ["%s documents"]
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    assert paths.keys() >= ABOVE_ONE
    found = {name: find_plurals(path.read_text()) for name, path in paths.items()}
    assert {name: own for name, own in found.items() if own and name not in ABOVE_ONE} == {}


def test_learning_from_one_decision_is_told_in_the_singular():
    quality = Quality(0.5, 0.5, 0.5)
    text = LearnResult(1, 1, 1, 1, quality, quality, 1, 1, True).render_text()
    first, second, *table = text.splitlines()
    assert first == "1 document with 1 accepted and 1 rejected label"
    assert second == "1 threshold changed, 1 document stored"
    assert table[0].split() == ["on", "1", "held-out", "document", "precision", "recall", "F"]
