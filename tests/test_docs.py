"""What the documentation says is what the code does."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ontodex.models import MODELS, find
from ontodex.read import FORMATS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def everything() -> str:
    return "\n".join(path.read_text() for path in [ROOT / "README.md", *DOCS.rglob("*.md")])


@pytest.mark.parametrize(
    "page",
    [
        "reference/cli.md",
        "reference/config.md",
        "papers/levelwise-eurlex57k.md",
        "papers/levelwise-medline.md",
    ],
)
def test_generated_pages_are_what_the_code_says(generator, page):
    written = (DOCS / page).read_text(encoding="utf-8")
    assert written == generator.PAGES[page](), "run `make docs`"


def test_every_command_has_an_example_in_its_help(generator):
    text = generator.cli_page()
    for words in generator.command_names():
        section = text.split(f"## ontodex {' '.join(words)}\n")[1].split("\n## ")[0]
        assert f"ontodex {' '.join(words)}" in section.split("Usage:")[1].split("\n", 1)[1]


def cells_of(line: str) -> list[str]:
    return [*line.split("|"), "", ""]


def test_settings_say_their_choices_the_tables_inside_them_and_what_they_inherit(generator):
    section = generator.config_page().split('name = "levelwise"')[1].split("\n## ")[0]
    rows = {
        cells[1].strip(): [c.strip() for c in cells]
        for cells in map(cells_of, section.splitlines())
    }
    assert rows["`pooling`"][3] == "`dynamic`, `max`, `fixed`"
    assert rows["`train.batch`"][2] == "`128`", "as `levelwise` has it"
    assert "documents a step" in rows["`train.batch`"][4]
    assert "only digits" in rows["`numbers`"][4], "said where it is inherited from"
    assert "found on dev" in rows["`move_odds`"][4], "said above it"


def test_every_system_has_its_page_and_every_setting_a_meaning(generator):
    settings = generator.config_page()
    for name in MODELS:
        page = DOCS / "papers" / f"{name}.md"
        assert page.exists(), f"docs/papers/{name}.md is missing"
        section = settings.split(f'## [model] name = "{name}"\n')[1].split("\n## ")[0]
        said = {cells[1].strip(): cells for cells in map(cells_of, section.splitlines())}
        for field in dataclasses.fields(find(name).Config):
            if field.name not in ("train", "pointer"):  # tables, whose own settings are named
                assert f"`{field.name}`" in said
    assert [line for line in settings.splitlines() if line.endswith("|  |")] == []


def test_every_format_is_documented():
    text = everything()
    assert [name for name in FORMATS if f"`{name}`" not in text] == []


def test_every_metric_is_documented():
    text = (DOCS / "reference" / "metrics.md").read_text()
    for name in ("P@k", "nDCG@k", "R@k", "PSP@k", "PSnDCG@k", "MiF", "MaF", "ECE"):
        assert name in text


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_python_examples_of_the_readme_run(tmp_path):
    """The first Python block of the README, after the commands that make its run folder."""
    block = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]
    made = [sys.executable, "-m", "ontodex", "demo", "demo", "--model", "popularity"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", block.replace("demo/parabel", "demo/popularity")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Road safety" in done.stdout
