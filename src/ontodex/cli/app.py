"""What all commands share: the program itself, options, and how answers and errors are said."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ontodex import __version__, progress
from ontodex.errors import OntodexError

if TYPE_CHECKING:
    from ontodex.types import Ontology


app = typer.Typer(
    name="ontodex",
    help="Index documents with the concepts of an ontology, at extreme scale.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)

Text = Annotated[
    str,
    Argument(help="The text, a file with it (PDF, DOCX, HTML too), or - for standard input."),
]
Json = Annotated[bool, Option("--json", help="Print JSON for programs.")]
Device = Annotated[str, Option(help="auto, cpu or cuda.")]
OntologyPath = Annotated[Path | None, Option("--ontology", help="Ontology file, any format.")]
Keywords = Annotated[
    list[str] | None, Option("--keyword", help="A keyword of the author's. May be repeated.")
]
Set = Annotated[
    list[str] | None, Option("--set", help="A setting: table.key=value. May be repeated.")
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; our errors become one sentence and exit code 2, never a traceback."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    for chatty in ("gensim", "faiss"):  # one reports every pass, the other every file it tries
        logging.getLogger(chatty).setLevel(logging.WARNING)
    progress.show()
    try:
        app(arguments)
    except OntodexError as error:
        complain(str(error), error.hint)
        raise SystemExit(2) from error
    except MemoryError as error:
        complain("the machine's memory is used up", "use a smaller corpus or batch")
        raise SystemExit(2) from error
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise SystemExit(2) from error


def complain(message: str, hint: str = "") -> None:
    typer.echo(f"ontodex: {message}", err=True)
    if hint:
        typer.echo(f"  try: {hint}", err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def ontology_at(path: Path | None) -> Ontology | None:
    from ontodex.ontology import read_ontology

    return None if path is None else read_ontology(path)


def warn_of_language(language: str | None, ontology: Ontology | None) -> None:
    """Say so where names cannot come in the language asked for."""
    if language is None:
        return
    if ontology is None:
        complain(f"--language {language}: this run has no ontology, so ids stand for names")
    elif language not in ontology.names:
        tags = ("no stated language" if tag == "und" else tag for tag in sorted(ontology.names))
        known = ", ".join(tags) or "none"
        complain(f"--language {language}: not one of the ontology, whose names are in {known}")


def answer(value: Any, as_json: bool, text: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False) if as_json else text())
