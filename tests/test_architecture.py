"""The arrows between stages, and what may never be in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ontodex
from ontodex.models import MODELS
from ontodex.runs.settings_reference import find_settings
from prose import read_docstring

PACKAGE = Path(ontodex.__file__).parent
ROOT = PACKAGE.parent.parent

# Parts of the package, and what each may import besides itself. A module belongs to the longest
# prefix that covers it; a target is allowed when a listed prefix covers it.
BASE = {
    "errors",
    "config",
    "io",
    "types",
    "ontodex",
}  # "ontodex" is the package's own __init__
ARROWS: dict[str, set[str]] = {
    "ontodex": {
        "errors", "types", "corpora.check", "corpora.convert", "corpora.field_mapping",
        "corpora.open", "ontology.diff", "ontology.open", "models.advice",
        "evaluation.metrics", "sklearn", "runs.index.job", "runs.prepare",
        "runs.settings_reference",
        "runs.run", "runs.recipe", "runs.evaluate", "runs.compare", "runs.experiment.execute",
        "runs.export", "runs.hub", "runs.migrate", "runs.tune", "runs.update",
        "runs.versions", "serve.offline",
    },
    "__main__": {"cli"},
    "errors": set(),
    "config": {"errors", "io.old_names"},
    "io": {"errors"},
    "types": {"errors", "config", "io"},
    "corpora": BASE,
    "corpora.check": BASE | {"corpora", "ontology"},
    "corpora.convert": BASE | {"corpora", "ontology"},
    "ontology": BASE,
    "features": BASE,
    "training": BASE,
    "decide": BASE | {"ontology"},
    "evaluation": BASE,
    "models": BASE | {"ontology", "features", "training", "decide", "evaluation"},
    "models.kernels": BASE | {"models.layers"},
    "models.consensus": BASE | {"models", "decide", "evaluation"},
    "models.consensus.members": BASE | {"models", "ontology", "runs.folder"},
    "models.consensus.system": BASE | {"models", "ontology", "decide", "runs.folder"},
    "models.migrated": BASE | {"models", "ontology"},
    "runs": BASE | {"models", "corpora"},
    "runs.folder": BASE | {"corpora.field_mapping"},
    "runs.settings": BASE | {"features.languages", "features.token_config", "models", "decide"},
    "runs.languages": BASE | {"features.corpus_languages", "features.languages",
                              "features.prepare"},
    "runs.suggestions": BASE,
    "runs.run": BASE | {"features.languages", "models.interface",
                         "corpora.python_objects", "ontology.open", "decide",
                        "runs.folder", "runs.languages", "runs.settings", "runs.suggestions",
                        "runs.index"},
    "runs.claim": BASE | {"ontology", "training.distributed", "runs.folder", "runs.settings"},
    "runs.recipe": BASE | {"corpora", "ontology", "models.interface", "decide",
                           "training.clock", "training.distributed", "runs"},
    "runs.prepare": BASE | {"corpora", "features", "ontology", "runs.languages",
                           "runs.settings"},
    "runs.retrain": BASE | {"corpora", "runs"},
    "runs.migrate": BASE | {"features.token_config", "models", "ontology", "decide", "runs"},
    "runs.tune": BASE | {"corpora", "ontology.open", "models", "runs"},
    "runs.settings_reference": BASE | {"models", "decide", "runs.settings"},
    "runs.export": BASE | {"features.tokens", "models.baselines.linear",
                           "runs"},
    "runs.update": BASE | {"corpora", "models.interface", "runs"},
    "runs.evaluate": BASE | {"corpora", "ontology", "models.interface", "evaluation", "runs"},
    "runs.compare": BASE | {"corpora", "models", "decide", "evaluation", "runs"},
    "runs.index": BASE | {"corpora", "models", "runs.documents", "runs.folder", "runs.languages",
                          "runs.run"},
    "runs.experiment": BASE | {"corpora", "ontology", "models", "runs"},
    "render": BASE | {"ontology"},
    "serve": BASE | {"features.languages", "corpora", "ontology", "models.interface", "decide",
                     "runs"},
    "sklearn": BASE | {"corpora", "models", "decide", "runs"},
    "demo": BASE | {"corpora", "runs.folder"},
    "cli": BASE | {"corpora", "features", "models", "runs", "render", "serve", "demo"},
}  # fmt: skip


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts).removesuffix("__init__").rstrip(".") or "ontodex"


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


def part_of(module: str) -> str:
    """The longest prefix of ARROWS that covers a module."""
    steps = module.split(".")
    prefixes = [".".join(steps[:length]) for length in range(len(steps), 0, -1)]
    return next((prefix for prefix in prefixes if prefix in ARROWS), "")


def covers(prefix: str, module: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def imports(path: Path) -> set[str]:
    """The modules of ontodex that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ontodex":
            package = (node.module or "").removeprefix("ontodex").lstrip(".")
            for alias in node.names:
                name = f"{package}.{alias.name}".lstrip(".")
                found.add(name if name in MODULES else package or "ontodex")
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.split(".")[0] == "ontodex"]
            found |= {name.removeprefix("ontodex.") for name in names}
    return found


def test_every_module_belongs_to_a_part_of_the_table():
    assert [name for name in MODULES if not part_of(name)] == []
    assert [part for part in ARROWS if not any(part_of(name) == part for name in MODULES)] == []


def test_modules_import_only_what_the_table_allows():
    wrong = [
        f"{name} imports {target}"
        for name, path in MODULES.items()
        for target in imports(path)
        if not covers(part_of(name), target)
        and not any(covers(allowed, target) for allowed in ARROWS[part_of(name)])
    ]
    assert wrong == []


def test_no_arrow_of_the_table_is_unused():
    unused = [
        f"{part} -> {allowed}"
        for part, targets in ARROWS.items()
        for allowed in targets - BASE - {"models", "corpora"}
        if not any(
            covers(allowed, target)
            for name, path in MODULES.items()
            if part_of(name) == part
            for target in imports(path)
        )
    ]
    assert unused == []


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


def find_loaded(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after running `code`."""
    script = f"{code}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"torch", "numpy", "scipy", "pyarrow", "lxml", "sklearn", "gensim", "faiss", "matplotlib"}


def test_the_command_line_loads_nothing_heavy():
    assert not find_loaded("import ontodex.cli") & HEAVY


def test_help_loads_nothing_heavy():
    code = "from typer.testing import CliRunner; from ontodex.cli import app\n"
    code += "result = CliRunner().invoke(app, ['train', '--help']); assert result.exit_code == 0"
    assert not find_loaded(code) & HEAVY


def test_suggesting_with_a_system_without_network_needs_no_torch():
    assert "torch" not in find_loaded("import ontodex.runs.recipe")


@pytest.mark.parametrize(
    "name",
    ["attentionxml", "linear", "averaged", "dxml", "lightattention", "rankae", "levelwise"],
)
def test_suggesting_loads_no_training_code(name):
    code = f"""
import sys
from ontodex.runs.run import load
load({str(ROOT / "tests" / "runs" / "0.1" / name)!r}).suggest("words about law")
print(*[name for name in sys.modules if name.startswith("ontodex.training")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_reading_a_pdf_imports_nothing_of_the_service():
    pdf = ROOT / "tests" / "corpora" / "files" / "trout.pdf"
    parent = f"""
from ontodex.corpora.text_argument import read_document
assert read_document({str(pdf)!r}, None).text.strip() == "Trout in a PDF"
"""
    child = f"""
from pathlib import Path
from ontodex.corpora.extract_process import read_documents
(doc,) = read_documents(Path({str(pdf)!r}), "trout.pdf")
assert doc.fields["text"].strip() == "Trout in a PDF"
"""
    report = (
        "import sys; print(*[name for name in sys.modules if name.startswith('ontodex.serve')])"
    )
    for code in (parent, child):
        done = subprocess.run(
            [sys.executable, "-c", code + report], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == []


# Mutable on purpose: they collect while something runs.
MUTABLE = {
    "corpora/check.py", "corpora/label_names.py", "corpora/open.py", "render/outline.py",
    "serve/prediction/batcher.py", "serve/prediction/run_metadata.py", "serve/service.py",
    "training/loop.py", "types/record_batches.py",
}  # fmt: skip


def test_dataclasses_are_frozen_unless_they_collect():
    mutable = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.strip().startswith("@dataclass") and "frozen=True" not in line
    }
    assert mutable == MUTABLE


# Test files that belong to several modules, or to none.
SUITES = {
    "corpora/formats/test_attack_seeds", "corpora/formats/test_damaged",
    "corpora/formats/test_every_format", "corpora/formats/test_parquet_bombs",
    "corpora/formats/test_real_corpora", "corpora/formats/test_round_trip",
    "corpora/sample/test_sample", "corpora/test_hostile_size", "corpora/test_special_files",
    "corpora/test_spreadsheets", "evaluation/test_by_definition", "io/test_disk_full",
    "io/test_hostile_xml", "models/attentive_tree/test_equations",
    "models/attentive_tree/test_half_table", "models/attentive_tree/test_pretrained",
    "models/dxml/test_equations",
    "models/levelwise/test_real_ontologies", "models/lightattention/test_equations",
    "models/test_every_model", "ontology/test_hostile", "ontology/test_hostile_size",
    "ontology/test_readers", "ontology/test_real_ontologies", "ontology/test_writers",
    "runs/index/test_object_store", "runs/test_damaged_runs", "runs/test_old_runs",
    "serve/page/test_page", "serve/page/test_page_curators", "serve/page/test_page_hostile",
    "serve/page/test_page_readers", "serve/page/test_texts", "serve/test_characters",
    "serve/test_kubernetes", "serve/test_long_documents", "serve/test_process",
    "serve/test_replicas", "serve/test_schema", "test_api", "test_architecture", "test_deploy",
    "test_docs", "test_golden", "test_patterns", "test_wheel", "training/test_many_processes",
    "training/test_tables_by_row",
}  # fmt: skip


def test_test_files_mirror_the_modules():
    folder = ROOT / "tests"
    found = {path.relative_to(folder).with_suffix("") for path in folder.rglob("test_*.py")}
    own = {path for path in found if path.parts[0] not in ("attack", "bench", "tools")}
    mirrored = {path for path in own if (PACKAGE / path.parent / f"{path.name[5:]}.py").exists()}
    assert {path.as_posix() for path in own - mirrored} == SUITES


MOST_SETTINGS, MOST_OF_LEVELWISE = 30, 40


def test_no_system_has_more_settings_than_a_user_can_read():
    counts = {name: len(find_settings(name)) for name in MODELS}
    most = {"levelwise": MOST_OF_LEVELWISE}
    assert {n: count for n, count in counts.items() if count > most.get(n, MOST_SETTINGS)} == {}


FOLDERS = ("src", "attack", "bench", "tools")
LONGEST_FUNCTION = 60  # lines
LONGEST_FILE = 450  # lines


def list_definitions() -> list[tuple[Path, ast.AST]]:
    """List the modules, classes and functions of all code outside the tests."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (path.relative_to(ROOT), node)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds)
    ]


def test_functions_fit_on_a_screen():
    long = [
        f"{path}:{node.lineno} {node.name} has {length} lines"
        for path, node in list_definitions()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
    ]
    assert long == []


def test_files_are_not_too_long_to_read():
    long = [
        f"{path.relative_to(ROOT)} has {length} lines"
        for folder in (*FOLDERS, "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (length := len(path.read_text().splitlines())) > LONGEST_FILE
    ]
    assert long == []


def test_docstrings_do_not_open_with_a_question_word():
    wrong = [
        f"{path}: {docstring.splitlines()[0]}"
        for path, node in list_definitions()
        if (docstring := ast.get_docstring(node))
        and re.match(r"(What|Which|How|Whether|Where|Why)\b", docstring)
    ]
    assert wrong == []


def test_sentences_of_docstrings_are_short():
    found = {
        sentence: (path, len(sentence.split()))
        for path, node in list_definitions()
        for sentence in read_docstring(ast.get_docstring(node) or "")
    }
    assert {one: place for one, place in found.items() if place[1] > 45} == {}
    assert sum(length for _, length in found.values()) / len(found) < 30
