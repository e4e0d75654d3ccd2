"""Offer run folders, concepts of a run and systems behind the TAB key of a shell.

`ontodex --install-completion` sets it up. Nothing is loaded for it but names of files and lines of
labels.tsv, because the shell waits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import typer

MOST = 50  # names that are offered


def complete_runs(incomplete: str) -> Iterator[str]:
    """Yield the run folders that continue what was typed, and folders that may hold some."""
    folder, _, start = incomplete.rpartition("/")
    base = Path(folder or ("/" if incomplete.startswith("/") else "."))
    prefix = incomplete[: len(incomplete) - len(start)]
    try:
        names = sorted(path for path in base.iterdir() if path.name.startswith(start))
    except OSError:
        return
    for path in names:
        if (path / "manifest.json").exists():
            yield f"{prefix}{path.name}"
        elif path.is_dir() and not path.name.startswith("."):
            yield f"{prefix}{path.name}/"


def complete_concepts(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the concepts of the run whose name or id begins with what was typed, in any case.

    Each is a word that continues the typed one, as Typer requires, and the name to show beside it.
    """
    # An option without its value ends the parsing: the run is then among the arguments left over.
    run = context.params.get("run") or next(iter(context.args), "")
    typed = incomplete.casefold()
    found = (
        (word, name)
        for id_, name in _read_names(Path(run))
        for word in (id_, name)
        if word.casefold().startswith(typed)
    )
    for word, name in islice(found, MOST):
        yield incomplete + _escape(word[len(incomplete) :]), name


def complete_systems(incomplete: str) -> list[str]:
    """Return the names of systems that continue what was typed."""
    from ontodex.models import MODELS

    return [name for name in MODELS if name.startswith(incomplete)]


def _read_names(run: Path) -> Iterator[tuple[str, str]]:
    try:
        with (run / "labels.tsv").open(encoding="utf-8") as lines:
            next(lines, None)  # the header
            for line in lines:
                id_, _, name = line.rstrip("\n").split("\t", 2)
                yield id_, name
    except (OSError, ValueError):
        return


def _escape(rest: str) -> str:
    """Return the rest of a word for the shell; zsh, fish and PowerShell quote by themselves."""
    is_bash = os.environ.get("_ONTODEX_COMPLETE", "").endswith("bash")
    return re.sub(r"([^\w.,:/+-])", r"\\\1", rest) if is_bash else rest
