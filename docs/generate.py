"""Write the pages of docs/reference that are made from the code: cli.md and config.md.

python docs/generate.py            writes them; tests compare them with what this would write
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "100"  # help pages are wrapped the same on every machine
os.environ["NO_COLOR"] = "1"
os.environ["TERM"] = "dumb"

import typer
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.models import MODELS, find

HERE = Path(__file__).resolve().parent / "reference"


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
    parts = ["# Commands\n\nMade from the code by `make docs`. Every command fails with a sentence and"
             " exit code 2.\n"]  # fmt: skip
    for words in [[], *command_names()]:
        help_text = CliRunner().invoke(app, [*words, "--help"], prog_name="ontodex").output
        help_text = "\n".join(line.rstrip() for line in help_text.strip().splitlines())
        parts.append(f"## {' '.join(['ontodex', *words])}\n\n```\n{help_text}\n```\n")
    return "\n".join(parts)


def settings_table(cls: type) -> str:
    """One row a setting: name, default, and the comment that stands behind it in the code."""
    source = inspect.getsource(cls)
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for field in dataclasses.fields(cls):
        line = re.search(rf"^\s+{field.name}\s*:.*?(?:#\s*(.*))?$", source, re.M)
        meaning = (line.group(1) if line else "") or ""
        default = field.default if field.default is not dataclasses.MISSING else "..."
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if dataclasses.is_dataclass(default):
            default = type(default).__name__
        rows.append(f"| `{field.name}` | `{default!r}` | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) if len(rows) > 2 else "No settings."


def config_page() -> str:
    """Every setting of every table."""
    from ontodex.decide import DecideConfig
    from ontodex.run import LabelsConfig, TrainConfig

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


PAGES = {"cli.md": cli_page, "config.md": config_page}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).write_text(make())
        sys.stdout.write(f"docs/reference/{page}\n")
