"""What can go wrong, said so that the person who meets it knows what to do.

OntodexError            caught once in cli/ (exit code 2) and once in serve/ (problem documents)
├── DataError           a corpus or an ontology file: which file, which line, what was seen
├── ConfigError         a setting: which table, which key, what it takes
├── RunError            a run folder: missing, damaged, of another version, or not able to do this
└── MissingExtraError        an optional library that this step needs: the line that installs it
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


class OntodexError(Exception):
    """A sentence for people: what is wrong, where, what was seen; `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class DataError(OntodexError):
    """Something in a data file; the message starts with file:line when they are known."""

    def __init__(
        self, message: str, *, path: Path | None = None, line: int | None = None, hint: str = ""
    ) -> None:
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(where + message, hint=hint)
        self.path, self.line = path, line


class ConfigError(OntodexError):
    """A setting that does not exist or cannot have this value."""


class RunError(OntodexError):
    """A run folder that cannot be used as asked."""


class MissingExtraError(OntodexError):
    """A library outside the core is not installed."""


def require(module: str, *, extra: str, purpose: str) -> Any:
    """The imported optional `module`, or a sentence that says how to get it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise MissingExtraError(
            f"{purpose} needs the package {module.split('.')[0]!r}, which is not installed",
            hint=f"pip install 'ontodex[{extra}]'",
        ) from error
