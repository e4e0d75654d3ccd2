"""The program that all commands share: options, output, and errors as one sentence."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ontodex import __version__
from ontodex.cli.completion import complete_runs
from ontodex.errors import ConfigError, OntodexError
from ontodex.io import progress
from ontodex.io.terminal import clean_lines, escape_json

if TYPE_CHECKING:
    from ontodex.types import Ontology


app = typer.Typer(
    name="ontodex",
    help="Index documents with the concepts of an ontology, at extreme scale.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

RunFolder = Annotated[Path, Argument(help="Run folder.", autocompletion=complete_runs)]
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
DocumentLanguage = Annotated[
    list[str] | None,
    Option(
        "--language",
        help="Language of the documents, a code or a name; else guessed. May be repeated; "
        "`none` reads words as they are.",
    ),
]
NameLanguage = Annotated[
    str | None, Option("--language", help="Language of the names: a code or a name.")
]
Set = Annotated[
    list[str] | None, Option("--set", help="A setting: table.key=value. May be repeated.")
]


class _StderrHandler(logging.Handler):
    """Write messages to what is standard error at the time: a bar puts them above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{clean_lines(self.format(record))}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error is one sentence and exit code 2, never a traceback."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, handlers=[_StderrHandler()])
    for name in ("gensim", "faiss"):  # they log every pass and every file that they try
        logging.getLogger(name).setLevel(logging.WARNING)
    progress.show_bars()
    try:
        app(move_global_options(sys.argv[1:] if arguments is None else arguments))
    except OntodexError as error:
        print_error(str(error), error.hint)
        raise SystemExit(2) from error
    except (MemoryError, ImportError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print_error("the machine's memory is used up", "use a smaller corpus or batch")
        raise SystemExit(2) from error
    except OSError as error:
        print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise SystemExit(2) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: loading a library and PyTorch have other errors for it."""
    texts = ("failed to map segment", "allocate memory", "can't start new thread")
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


def print_lines(text: str, *, err: bool = False) -> None:
    """Print lines of text. Names in it may be those of strangers: see `io/terminal`."""
    typer.echo(clean_lines(text), err=err)


def print_error(message: str, hint: str = "") -> None:
    print_lines(f"ontodex: {message}", err=True)
    if hint:
        print_lines(f"  try: {hint}", err=True)


def print_warning(message: str) -> None:
    """Print what the user should know; the command goes on."""
    print_lines(f"warning: {message}", err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


GLOBAL_OPTIONS = ("--quiet", "--verbose")


def move_global_options(arguments: Sequence[str]) -> list[str]:
    """Move --quiet and --verbose before the command, so that they may stand behind it too."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    moved = [word for word in words[:end] if word in GLOBAL_OPTIONS]
    return moved + [word for word in words[:end] if word not in GLOBAL_OPTIONS] + words[end:]


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[
        bool, Option("--quiet", help="Print only results, warnings and errors.")
    ] = False,
    verbose: Annotated[
        bool, Option("--verbose", help="Print more: all metrics, and the origin of each message.")
    ] = False,
) -> None:
    """Apply the options of all commands; --quiet and --verbose may also follow the command."""
    if quiet and verbose:
        raise ConfigError("--quiet and --verbose exclude each other", hint="leave one out")
    context.obj = {"verbose": verbose}
    if quiet:
        logging.getLogger().setLevel(logging.WARNING)
        progress.hide_bars()
    if verbose:
        logging.getLogger("ontodex").setLevel(logging.DEBUG)
        for handler in logging.getLogger().handlers:
            handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))


def describe_tag(tag: str) -> str:
    """Return a language tag of an ontology for people: `Finnish (fi)`."""
    from ontodex.features.languages import name_language

    name = name_language(tag)
    return "no stated language" if tag == "und" else tag if name == tag else f"{name} ({tag})"


def warn_missing_language(language: str | None, ontology: Ontology | None) -> None:
    """Warn where the ontology has no names in the language asked for."""
    from ontodex.features.languages import match_tag

    if language is None:
        return
    if ontology is None:
        problem = "this run has no ontology, so ids are shown instead of names"
        print_warning(f"--language {language}: {problem}")
    elif match_tag(language, ontology.names) is None:
        known = ", ".join(map(describe_tag, sorted(ontology.names))) or "none"
        problem = f"not one of the ontology, whose names are in {known}"
        print_warning(f"--language {language}: {problem}")


def print_answer(value: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print the value as JSON for programs, or the text for people."""
    if as_json:
        typer.echo(escape_json(json.dumps(value, indent=1, ensure_ascii=False)))
    else:
        print_lines(text())
