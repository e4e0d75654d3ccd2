"""The documentation agrees with the code."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib.util
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import ontodex
from ontodex.cli import app
from ontodex.corpora.datasets import get as get_ready_set
from ontodex.corpora.datasets import list_datasets
from ontodex.corpora.formats import FORMATS
from ontodex.models import MODELS, find_model
from ontodex.models.auto.candidates import SPACE, list_alternatives
from prose import read_sentences

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "ontodex"


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
        "lab/levelwise-eurlex57k.md",
        "lab/levelwise-medline.md",
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


def test_the_help_of_data_get_names_every_ready_set(generator):
    section = generator.cli_page().split("## ontodex data get\n")[1].split("\n## ")[0]
    assert [one.name for one in list_datasets() if one.name not in section] == []


def cells_of(line: str) -> list[str]:
    return [*line.split("|"), "", ""]


def test_settings_say_their_choices_the_tables_inside_them_and_what_they_inherit(generator):
    section = generator.config_page().split('name = "levelwise"')[1].split("\n## ")[0]
    rows = {
        cells[1].strip(): [c.strip() for c in cells]
        for cells in map(cells_of, section.splitlines())
    }
    assert rows["`pooling`"][3] == "`dynamic`, `max`, `fixed`"
    assert rows["`train.batch_size`"][2] == "`256`", "as `levelwise` has it"
    assert "documents per step" in rows["`train.batch_size`"][4]
    assert "text fields to read" in rows["`fields`"][4], "said where it is inherited from"
    assert "by its size" in rows["`pooling`"][4], "said above it"


def test_every_system_has_its_page_and_every_setting_a_meaning(generator):
    settings = generator.config_page()
    for name in MODELS:
        page = DOCS / "papers" / f"{name}.md"
        assert page.exists(), f"docs/papers/{name}.md is missing"
        section = settings.split(f'## [model] name = "{name}"\n')[1].split("\n## ")[0]
        rows = {cells[1].strip(): cells for cells in map(cells_of, section.splitlines())}
        for field in dataclasses.fields(find_model(name).Config):
            is_table = field.name in ("train", "pointer")  # its own settings are named
            if not is_table and not field.metadata.get("resolved"):
                assert f"`{field.name}`" in rows
    assert [line for line in settings.splitlines() if line.endswith("|  |")] == []


def setting_names(generator) -> dict[str, set[str]]:
    """Names of the settings by table; `model` has those of all systems together."""
    from ontodex.decide.config import DecideConfig
    from ontodex.features.prepare import PrepareConfig
    from ontodex.runs.settings import LabelsConfig, TrainConfig

    tables = {
        "decide": [DecideConfig],
        "labels": [LabelsConfig],
        "prepare": [PrepareConfig],
        "train": [TrainConfig],
        "model": [find_model(name).Config for name in MODELS],
    }
    return {
        table: {one.name for config in configs for one in generator.list_settings(config)}
        for table, configs in tables.items()
    }


def test_settings_that_pages_name_in_commands_exist(generator):
    known = setting_names(generator)
    pattern = r"(?:--set|--over) '?(\w+)\.([\w.]+)="
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = " ".join(page.read_text(encoding="utf-8").split())
        named = {pair for pair in re.findall(pattern, text) if pair != ("table", "key")}
        assert [pair for pair in named if pair[1] not in known[pair[0]]] == [], page.name


def commands_in_comments(text: str) -> list[list[str]]:
    """Return the words of each `ontodex` command of the comments; a backslash continues a line."""
    joined = re.sub(r"\\\n#", " ", text)
    found = re.findall(r"^# +(ontodex [a-z].*)", joined, re.MULTILINE)
    return [shlex.split(command.translate(str.maketrans("[]", "  "))) for command in found]


@pytest.mark.parametrize("path", sorted(ROOT.glob("experiments/**/*.toml")), ids=lambda p: p.stem)
def test_commands_in_the_comments_of_experiments_name_options_and_settings_that_exist(
    generator, path
):
    known = setting_names(generator)
    commands = commands_in_comments(path.read_text(encoding="utf-8"))
    assert commands
    for _, name, *words in commands:
        params = get_command(app).get_command(None, name).params
        options = {option for param in params for option in param.opts}
        assert not [w for w in words if w.startswith("-") and w not in options]
        assert not [w for w in words if "\\" in w]
        settings = [
            words[i + 1].split("=")[0].split(".", 1) for i, w in enumerate(words) if w == "--set"
        ]
        assert not [pair for pair in settings if pair[1] not in known[pair[0]]]


def test_a_stream_of_known_phrases_is_what_the_experiment_of_the_paper_prepares():
    """Without `known_phrases` the folder would have other phrases than `levelwise` reads."""
    path = ROOT / "experiments" / "paper" / "levelwise.toml"
    prepare, _ = commands_in_comments(path.read_text(encoding="utf-8"))
    assert "prepare.known_phrases=true" in prepare


@pytest.mark.parametrize("name", sorted(MODELS))
def test_tables_of_settings_on_a_system_page_name_settings_of_the_system(generator, name):
    known = {one.name for one in generator.list_settings(find_model(name).Config)} | {"train"}
    text = (DOCS / "papers" / f"{name}.md").read_text(encoding="utf-8")
    for table in re.findall(r"^\| setting \|.*\n\|[-|:]+\n((?:\|.*\n)+)", text, re.M):
        named = [re.search(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()]
        assert {match.group(1) for match in named if match} - known == set()


def test_the_guide_of_auto_lists_the_settings_that_it_tries():
    rows = re.findall(
        r"^\| (`[a-z`, -]+`) \|[^|]*\| (`.*`) \|$", (DOCS / "guide" / "auto.md").read_text(), re.M
    )
    listed = {
        system: set(re.findall(r"`(\w+)`", settings))
        for systems, settings in rows
        for system in re.findall(r"`([\w-]+)`", systems)
    }
    assert listed == {name: {one for one, _ in list_alternatives(name, "text")} for name in SPACE}


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


def test_paths_of_the_source_lead_somewhere():
    folders = [DOCS / name for name in ("papers", "guide", "lab", "results")]
    pages = [page for folder in folders for page in folder.glob("*.md")]
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages]:
        for path in re.findall(r"`((?:\w+/)+\w+\.(?:py|toml))`", page.read_text()):
            assert (SOURCE / path).exists() or (ROOT / path).exists(), f"{page.name}: {path}"


def test_modules_and_names_of_the_package_that_pages_mention_exist():
    dated = {DOCS / "decisions", DOCS / "lab"}  # these keep the names of their time
    pages = [page for page in DOCS.rglob("*.md") if dated.isdisjoint(page.parents)]
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages]:
        for name in set(re.findall(r"`(ontodex(?:\.\w+)+)", page.read_text(encoding="utf-8"))):
            assert find_name(name), f"{page.name}: {name}"


def test_the_python_page_has_every_public_name():
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: ontodex\.(\w+)$", page, re.M)) == sorted(ontodex.__all__)


def find_name(name: str) -> bool:
    """Is there a module, or an attribute of one, of this dotted name?"""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return name.startswith("ontodex.service")  # a unit of systemd
    return True


def definitions(path: Path) -> set[str]:
    """Classes and functions of a module, and methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if hasattr(inner, "name")}
    return found


@pytest.mark.parametrize(
    "page",
    [*sorted((DOCS / "papers").glob("*.md")), *sorted((DOCS / "lab").glob("*.md"))],
    ids=lambda page: page.relative_to(DOCS).as_posix(),
)
def test_names_in_the_code_maps_exist(page):
    for names, path in re.findall(r"((?:`[\w.]+`, )*`[\w.]+`) in `([\w/]+\.py)`", page.read_text()):
        missing = set(re.findall(r"[\w.]+", names)) - definitions(SOURCE / path)
        assert missing == set(), f"{path} has none of these"


@pytest.mark.parametrize(
    "page",
    [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_sentences_are_short(page):
    lengths = {one: len(one.split()) for one in read_sentences(page.read_text(encoding="utf-8"))}
    assert {one: length for one, length in lengths.items() if length > 45} == {}
    assert sum(lengths.values()) / len(lengths) < 30


SECTIONS = {  # in this order; an introduction stands before the first
    "papers": ["When to use it", "How to use it", "Figures", "Limits"],
    "guide": ["When to use it", "Figures", "Limits"],
}


@pytest.mark.parametrize(
    "page",
    [one for folder in SECTIONS for one in sorted((DOCS / folder).glob("*.md"))],
    ids=lambda page: page.relative_to(DOCS).as_posix(),
)
def test_pages_of_systems_and_of_the_guide_have_their_sections(page):
    if page.name == "claims.md":
        return  # made by bench/claims.py: one table for each paper
    text = page.read_text(encoding="utf-8")
    wanted = SECTIONS[page.parent.name]
    sections = re.findall(r"^## (.+)$", text, re.M)
    assert [one for one in sections if one in wanted] == wanted
    assert sections[-1] == "Limits"
    assert read_sentences(text.split("\n## ")[0]), "says first what it is"


def test_sentences_are_those_of_paragraphs_lists_and_footnotes():
    page = """# A heading

One sentence
over two lines.[^a] And **another.** A third

| a table | of two |
|---|---|

- an item

    and its second paragraph
- the next

Before a block:

    indented code

```bash
fenced code
```
Behind it.

[^a]: A footnote
    over two lines.
"""
    assert read_sentences(page) == [
        "One sentence over two lines.",
        "And **another.",
        "A third",
        "an item",
        "and its second paragraph",
        "the next",
        "Before a block:",
        "Behind it.",
        "[^a]: A footnote over two lines.",
    ]


def test_papers_are_cited_by_name():
    number = "paper " + r"00\d"  # in two parts, so that a search of the tree finds nothing
    assert re.findall(number, everything()) == []


@pytest.mark.parametrize(
    ("title", "systems"),
    [
        ("Large-scale Semantic Indexing with Deep Level-wise", ["levelwise", "attentive-levels"]),
        ("Deep Extreme Multi-label Learning", ["dxml", "graphknn", "landmark"]),
        ("AttentionXML: Extreme Multi-Label Text", ["attentionxml", "attentive", "xmlrnn"]),
        ("Multi-Label text classification (MTC)", ["lightattention", "attentive-tree"]),
        ("Ranking-Based Autoencoder for Extreme", ["rankae", "autoencoder"]),
    ],
)
def test_the_readme_and_the_pages_of_a_paper_and_its_variants_cite_it(title, systems):
    assert title in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *(DOCS / "papers" / f"{name}.md" for name in systems)]:
        text = page.read_text(encoding="utf-8")
        assert re.search(rf"^[->] .*{re.escape(title)}", text, re.M), page.name


# Pages whose commands and Python run here. A block that cannot has a comment before it:
# <!-- not run: reason -->
PAGES_THAT_RUN = [
    ROOT / "README.md",
    DOCS / "quickstart.md",
    *sorted((DOCS / "guide").glob("*.md")),
]
BUDGET = re.compile(r"""(--budget |budget=")\d+m""")  # pages have minutes, tests have seconds
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?^```(python|bash)\n(.*?)^```", re.M | re.S)


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A folder with the files that the pages name: the sample, cut short, and three runs."""
    folder = tmp_path_factory.mktemp("desk")
    train, dev, test, ontology = get_ready_set("sample", folder / "whole")
    for path, n_lines in ((train, 400), (dev, 100), (test, 50)):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / path.name).write_text("".join(lines[:n_lines]), encoding="utf-8")
    shutil.copy(ontology, folder / "ontology.json")
    shutil.copy(ontology, folder / "mesh.tsv")  # formats are recognised by content
    (folder / "article.txt").write_text("Brown trout have come back to the brook.\n")
    for name, model in (("parabel", "parabel"), ("linear", "knn"), ("lexical", "lexical")):
        files = f"--train train.jsonl --dev dev.jsonl --ontology ontology.json --out runs/{name}"
        run_commands(f"ontodex train --model {model} {files}", folder)
    return folder


def run_commands(script: str, folder: Path) -> None:
    """Run the lines of a shell block: `ontodex` in this process, anything else in bash."""
    for line in script.replace("\\\n", "").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["ontodex"]:
            with contextlib.chdir(folder):
                done = CliRunner().invoke(app, words[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
        elif words:
            subprocess.run(["bash", "-c", line], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: page.stem)
def test_commands_and_python_of_a_page_run(page, desk, tmp_path):
    folder = tmp_path / "desk"
    shutil.copytree(desk, folder)
    names: dict[str, object] = {"__name__": "page"}
    for skipped, language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if skipped:
            continue
        block = BUDGET.sub(r"\g<1>3s", block)
        if language == "bash":
            run_commands(block, folder)
        else:
            with contextlib.chdir(folder):
                exec(compile(block, f"{page.name}", "exec"), names)


def test_commands_in_the_guides_are_in_blocks_that_run():
    for page in PAGES_THAT_RUN:
        outside = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        assert re.findall(r"^ {4}(?:ontodex|make|pip|python) .*", outside, re.M) == [], page.name


LOADED = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)="([^"]+)"')
FETCHED = re.compile(r"(?:@import\s+|url\()\s*[\"']?(https?:[^\"')]+)")


@pytest.mark.slow
def test_the_site_builds_without_a_broken_link_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs", reason="pip install '.[docs]'")
    built = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir"]
    subprocess.run([*built, str(tmp_path / "site")], cwd=ROOT, check=True, capture_output=True)
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text(encoding="utf-8")
        outside = [address for address in LOADED.findall(text) if "//" in address]
        assert outside == [], f"{page.name} loads these from another host"
        # the theme fetches these two from a CDN where a page has one
        assert 'class="mermaid"' not in text
        assert 'class="md-source"' not in text, "repo_url: asks the API of GitHub"
    for style in (tmp_path / "site").rglob("*.css"):
        assert FETCHED.findall(style.read_text(encoding="utf-8")) == [], style.name


def test_the_site_has_every_page_in_its_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert [page for page in pages if page not in menu] == []
