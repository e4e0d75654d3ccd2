"""The arrows between stages, and what may never be in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import ontodex

PACKAGE = Path(ontodex.__file__).parent
ROOT = PACKAGE.parent.parent

# Which stages a stage may import; types, errors, config, files, progress and guarded_xml are open.
SEES: dict[str, set[str]] = {
    "read": set(),
    "ontology": set(),
    "features": set(),
    "train": set(),
    "sample": set(),
    "decide": {"ontology"},
    "evaluate": {"ontology"},
    "models": {"ontology", "features", "train", "decide", "evaluate"},
}
CONDUCTORS = {
    "settings", "recipe", "run", "cli", "serve", "data", "check", "convert", "demo", "explain",
    "comparison", "experiment", "classifier", "given", "index", "index_block", "index_ray",
    "index_workers", "outline",
}  # fmt: skip


def imports(path: Path) -> set[str]:
    """The parts of ontodex a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "ontodex":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ontodex."):
            found.add((node.module or "").split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("ontodex.")}
    return found


def test_stages_import_only_what_the_table_allows():
    for stage, allowed in {**SEES, "types": set()}.items():
        for path in sorted((PACKAGE / stage).rglob("*.py")):
            for target in imports(path) & (SEES.keys() | CONDUCTORS):
                assert target in allowed | {stage}, f"{path.name} imports ontodex.{target}"


def test_every_folder_of_the_package_is_in_the_table():
    stages = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert stages <= SEES.keys() | {"cli", "serve", "types"}


def test_nothing_is_ever_unpickled_and_no_error_is_swallowed_whole():
    forbidden = {
        r"^\s*(import|from) (pickle|joblib|cloudpickle|dill|shelve)\b": "pickle family",
        r"torch\.load\(": "torch.load",
        r"except Exception\b": "except Exception",
        r"except:": "bare except",
        r"\.cuda\(": ".cuda()",
        r"allow_pickle\s*=\s*True": "allow_pickle",
        r"(?<![.\w])eval\(": "eval",
    }
    for path in PACKAGE.rglob("*.py"):
        for pattern, name in forbidden.items():
            assert not re.search(pattern, path.read_text(), re.M), f"{path}: {name}"


def test_print_is_only_in_the_commands():
    for path in PACKAGE.rglob("*.py"):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ]
        assert not calls or path.parent.name == "cli", path


def test_no_room_is_called_utils():
    names = {path.stem for path in PACKAGE.rglob("*.py")}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_public_names_are_the_ones_that_exist():
    for name in ontodex.__all__:
        assert getattr(ontodex, name) is not None
    assert set(ontodex.__all__) == set(ontodex._HOME)


def loaded_by(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after running `code`."""
    script = f"{code}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"torch", "numpy", "scipy", "pyarrow", "lxml", "sklearn", "gensim", "faiss", "matplotlib"}


def test_the_command_line_loads_nothing_heavy():
    assert not loaded_by("import ontodex.cli") & HEAVY


def test_help_loads_nothing_heavy():
    code = "from typer.testing import CliRunner; from ontodex.cli import app\n"
    code += "result = CliRunner().invoke(app, ['train', '--help']); assert result.exit_code == 0"
    assert not loaded_by(code) & HEAVY


def test_suggesting_with_a_system_without_network_needs_no_torch():
    assert "torch" not in loaded_by("import ontodex.recipe")
