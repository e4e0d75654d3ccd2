"""Write the pages that are made from the code, or from results that were kept.

python docs/generate.py            writes them; tests compare them with what this would write
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

os.environ["COLUMNS"] = "100"  # help pages are wrapped the same on every machine
os.environ["NO_COLOR"] = "1"
os.environ["TERM"] = "dumb"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import typer
from typer.testing import CliRunner

import levelwise_tables
from levelwise_results import read_results
from ontodex.cli import app
from ontodex.models import MODELS, find

HERE = Path(__file__).resolve().parent


def command_names() -> list[list[str]]:
    """Every command and subcommand, as words after `ontodex`."""
    group: Any = typer.main.get_command(app)
    found = []
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found += [[name, inner] for inner in command.commands]
        else:
            found.append([name])
    return found


def cli_page() -> str:
    """The help of every command."""
    parts = [
        "# Commands\n\nMade from the code by `make docs`. Every command fails with a sentence and "
        "exit code 2.\n"
    ]
    for words in [[], *command_names()]:
        help_text = CliRunner().invoke(app, [*words, "--help"], prog_name="ontodex").output
        help_text = "\n".join(line.rstrip() for line in help_text.strip().splitlines())
        parts.append(f"## {' '.join(['ontodex', *words])}\n\n```\n{help_text}\n```\n")
    return "\n".join(parts)


def settings_table(cls: type) -> str:
    """One row a setting: name, default, choices, and the comment beside it in the code."""
    rows = [
        f"| `{name}` | `{default!r}` | {choices} | {said} |"
        for name, default, choices, said in settings(cls)
    ]
    head = ["| setting | default | choices | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else "No settings."


def settings(cls: type, given: Any = None, prefix: str = "") -> Iterator[tuple[str, Any, str, str]]:
    """Name, default, choices and meaning of each; those of a table inside follow as `table.key`,
    with the defaults that the outer one gives them."""
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        default = field.default if field.default is not dataclasses.MISSING else "..."
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if given is not None:
            default = getattr(given, field.name)
        if dataclasses.is_dataclass(default) and not isinstance(default, type):
            yield from settings(type(default), default, f"{prefix}{field.name}.")
            continue
        literal = get_origin(hints[field.name]) is Literal
        choices = [f"`{choice}`" for choice in get_args(hints[field.name])] if literal else []
        yield f"{prefix}{field.name}", default, ", ".join(choices), meaning(cls, field.name)


def meaning(cls: type, name: str) -> str:
    """The comment behind a setting, or the lines above it, where it is said last."""
    for owner in cls.__mro__:
        if name in vars(owner).get("__annotations__", {}):
            source = inspect.getsource(owner)
            found = re.search(rf"((?:^ +#.*\n)*)^ +{name} *:[^#\n]*(?:# *(.*))?$", source, re.M)
            above, behind = found.groups() if found else ("", "")
            said = behind or " ".join(line.strip(" #") for line in above.splitlines())
            if said:
                return said.replace("|", "\\|")
    return ""


def config_page() -> str:
    """Every setting of every table."""
    from ontodex.decide import DecideConfig
    from ontodex.settings import LabelsConfig, TrainConfig

    parts = [
        "# Settings\n\nMade from the code by `make docs`. A config file has the tables `[model]` "
        "(with `name`), `[labels]`, `[train]` and `[decide]`; on the command line "
        "`--set table.key=value`.\n",
        f"## [labels]\n\n{settings_table(LabelsConfig)}\n",
        f"## [train]\n\n{settings_table(TrainConfig)}\n",
        f"## [decide]\n\n{settings_table(DecideConfig)}\n",
    ]
    for name in MODELS:
        parts.append(f'## [model] name = "{name}"\n\n{settings_table(find(name).Config)}\n')
    return "\n".join(parts)


def levelwise_page(corpus: str, title: str, *, paper: bool) -> str:
    """All tables and claims of paper 000 on a corpus."""
    folder = HERE.parent / "bench" / "results" / "levelwise" / corpus
    beside = json.loads((folder / "beside.json").read_text("utf-8"))
    tables = levelwise_tables.tables(read_results(folder), paper, beside)
    return (
        f"# `levelwise` on {title}: Tables 2 to 5 and the claims\n\nMade by `make docs` from "
        f"`bench/results/levelwise/{corpus}`. What the rows are, how they were measured and what "
        f"we make of it: [levelwise](levelwise.md#figures).\n\n{tables}"
    )


PAGES = {
    "reference/cli.md": cli_page,
    "reference/config.md": config_page,
    "papers/levelwise-eurlex57k.md": partial(
        levelwise_page, "eurlex57k", "EURLEX57K + EuroVoc", paper=False
    ),
    "papers/levelwise-medline.md": partial(levelwise_page, "medline", "MEDLINE + MeSH", paper=True),
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).write_text(make(), encoding="utf-8")
        sys.stdout.write(f"docs/{page}\n")
