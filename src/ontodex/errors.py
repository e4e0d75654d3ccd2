"""The errors of ontodex. Each message says what is wrong, where, what was seen and what to do.

OntodexError            caught once in cli/ (exit code 2) and once in serve/ (problem documents)
  DataError             a corpus or an ontology file: file, line, what was seen
    UnmappedTableError  a table without a column that is known to hold text
  ConfigError           a setting: table, key, accepted values
  RunError              a run folder: missing, damaged, of another version, or not able
    UntrainedError      a system used before it was trained
  MissingExtraError     an optional library that is not installed: the command that installs it
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

LONGEST = 1_500  # characters of a message


class OntodexError(Exception):
    """An error with a sentence for people; `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        # Half of a surrogate pair, quoted from a file, could be neither printed nor answered.
        super().__init__(_shorten(message.encode("utf-8", "replace").decode("utf-8")))
        self.hint = hint


def _shorten(message: str) -> str:
    """Cut a message that quotes too much of a file, such as the names of 100,000 columns."""
    rest = len(message) - LONGEST
    return message if rest <= 0 else f"{message[:LONGEST]} ... and {rest:,} more characters"


class DataError(OntodexError):
    """A wrong data file; the message starts with file:line where they are known."""

    def __init__(
        self, message: str, *, path: Path | None = None, line: int | None = None, hint: str = ""
    ) -> None:
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(where + message, hint=hint)
        self.path, self.line = path, line

    def at(self, path: Path, line: int | None = None) -> DataError:
        """Return the same error with a place, for one that was raised without."""
        return DataError(str(self), path=path, line=line, hint=self.hint)


class UnmappedTableError(DataError):
    """A table whose columns have names that no reader knows."""

    columns: tuple[str, ...] = ()

    def at(self, path: Path, line: int | None = None) -> UnmappedTableError:
        """Return the same error with a place."""
        error = UnmappedTableError(str(self), path=path, line=line, hint=self.hint)
        error.columns = self.columns
        return error


class ConfigError(OntodexError):
    """A setting that does not exist or cannot have this value."""


class RunError(OntodexError):
    """A run folder that cannot be used in this way."""


class UntrainedError(RunError):
    """A system was used before it was trained."""

    def __init__(self, system: str) -> None:
        super().__init__(f"{system} was used before it was trained", hint="call fit or load")


class MissingExtraError(OntodexError):
    """A library outside the core is not installed."""


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional module and return it, or raise an error that says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # the module itself is there, and needs another one
        raise MissingExtraError(
            f"{purpose} needs the package {module.split('.')[0]!r}, which is not installed",
            hint=f"pip install 'ontodex[{extra}]'",
        ) from error
