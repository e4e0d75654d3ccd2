"""Write the pages that are made from the code, or from results that were kept.

python docs/generate.py            writes them; tests compare them with what this would write
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "100"  # help pages are wrapped the same on every machine
os.environ["NO_COLOR"] = "1"
os.environ["TERM"] = "dumb"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import typer
from typer.testing import CliRunner

import levelwise_tables
from levelwise_results import read_results
from ontodex.cli import app
from ontodex.models import MODELS, find_model
from ontodex.runs.settings_reference import list_settings

HERE = Path(__file__).resolve().parent


def command_names() -> list[list[str]]:
    """Return every command and subcommand, as words after `ontodex`."""
    group: Any = typer.main.get_command(app)
    found = []
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found += [[name, inner] for inner in command.commands]
        else:
            found.append([name])
    return found


def cli_page() -> str:
    """Return the page with the help of every command."""
    parts = [
        "# Commands\n\nMade from the code by `make docs`. A command that fails prints a message and "
        "exits with code 2.\n"
    ]
    for words in [[], *command_names()]:
        help_text = CliRunner().invoke(app, [*words, "--help"], prog_name="ontodex").output
        help_text = "\n".join(line.rstrip() for line in help_text.strip().splitlines())
        summary = re.split(r"(?<=\.)\s", " ".join(help_text.split("\n\n")[1].split()))[0]
        heading = " ".join(["ontodex", *words])
        parts.append(f"## {heading}\n\n{summary}\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


def settings_table(cls: type) -> str:
    """Return a table: name, default, choices, and the comment beside the setting in the code."""
    rows = []
    for setting in list_settings(cls):
        choices = ", ".join(f"`{choice}`" for choice in setting.choices)
        meaning = setting.meaning.replace("|", "\\|")
        rows.append(f"| `{setting.name}` | `{setting.default!r}` | {choices} | {meaning} |")
    head = ["| setting | default | choices | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else "No settings."


def config_page() -> str:
    """Return the page with every setting of every table."""
    from ontodex.decide.config import DecideConfig
    from ontodex.runs.settings import LabelsConfig, TrainConfig

    parts = [
        "# Settings\n\nMade from the code by `make docs`. A config file has the tables `[model]` "
        "(with `name`), `[labels]`, `[train]` and `[decide]`; on the command line "
        "`--set table.key=value`.\n",
        f"## [labels]\n\n{settings_table(LabelsConfig)}\n",
        f"## [train]\n\n{settings_table(TrainConfig)}\n",
        f"## [decide]\n\n{settings_table(DecideConfig)}\n",
    ]
    for name in MODELS:
        parts.append(f'## [model] name = "{name}"\n\n{settings_table(find_model(name).Config)}\n')
    return "\n".join(parts)


def levelwise_page(corpus: str, title: str, *, paper: bool) -> str:
    """Return the page with all tables and claims of Deep Level-wise XMLC on a corpus."""
    folder = HERE.parent / "bench" / "results" / "levelwise" / corpus
    beside = json.loads((folder / "beside.json").read_text("utf-8"))
    tables = levelwise_tables.tables(read_results(folder), paper, beside)
    return (
        f"# `levelwise` on {title}: Tables 2 to 5 and the claims\n\nMade by `make docs` from "
        f"`bench/results/levelwise/{corpus}`. The rows and how they were measured: "
        f"[every row](levelwise-rows.md).\n\n{tables}"
    )


PAGES = {
    "reference/cli.md": cli_page,
    "reference/config.md": config_page,
    "lab/levelwise-eurlex57k.md": partial(
        levelwise_page, "eurlex57k", "EURLEX57K + EuroVoc", paper=False
    ),
    "lab/levelwise-medline.md": partial(levelwise_page, "medline", "MEDLINE + MeSH", paper=True),
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).write_text(make(), encoding="utf-8")
        sys.stdout.write(f"docs/{page}\n")
