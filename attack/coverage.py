"""Count the lines that inputs reach, with the trace function of Python."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

READERS = ("ontodex.corpora.formats", "ontodex.corpora.parsing", "ontodex.corpora.detect",
           "ontodex.corpora.check", "ontodex.corpora.open", "ontodex.ontology.detect",
           "ontodex.ontology.graph", "ontodex.ontology.mesh", "ontodex.ontology.obo",
           "ontodex.ontology.open", "ontodex.ontology.skos", "ontodex.ontology.table",
           "ontodex.io.xml", "ontodex.io.files")  # fmt: skip
# Functions of writing, by the start of their names, and of locks; they are not attacked here.
WRITING = (
    "write", "_write", "_format", "format_", "open_atomic", "plot", "fit_doc", "_fit",
    "_check_writable",
    "_drop_unless", "_make_triples", "_make_texts", "_make_node", "_make_literal", "_make_row",
    "_make_article", "_make_label_matrix", "infer_format", "name_targets", "_name_targets",
    "number_labels", "check_replaceable", "replace_", "_try_", "_is_at", "hold_lock", "sync",
    "_temporary_name", "remove_leftovers", "_encode_id", "dump_json", "name_columns", "get_cache",
    "_escape",
)  # fmt: skip
# Where run folders are loaded and checked, and how such functions are named.
LOADERS = ("ontodex.models", "ontodex.decide", "ontodex.runs.folder", "ontodex.runs.run",
           "ontodex.io.tensors", "ontodex.io.json_schema")  # fmt: skip
LOADING = ("load", "_load", "read", "_read", "open", "_open", "parse", "_parse", "check", "_check",
           "from_json", "verify", "require", "_require", "validate", "_validate")  # fmt: skip


def is_reading(function: str) -> bool:
    """Return whether a function of READERS reads."""
    return not function.startswith(WRITING)


def is_loading(function: str) -> bool:
    """Return whether a function of LOADERS loads a run or checks what was loaded."""
    return function.startswith(LOADING)


class Coverage:
    """Lines of functions that were executed; a function is traced until all its lines were.

    `is_wanted` tells by its name whether a function of the modules counts.
    """

    def __init__(self, modules: Sequence[str], is_wanted: Callable[[str], bool]) -> None:
        self._modules, self._is_wanted = modules, is_wanted
        self._unseen: dict[int, set[int]] = {}
        self._codes: list[CodeType] = []  # keeps the ids of the keys above alive
        self._files = {file for name in modules for file in _list_files(name)}
        self.seen: set[tuple[str, int]] = set()

    @contextmanager
    def trace(self) -> Iterator[None]:
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        unseen = self._unseen.get(id(code))
        if unseen is None:
            file = code.co_filename
            lines = set(_list_lines(code)) if file in self._files else set()
            unseen = {line for line in lines if (file, line) not in self.seen}
            self._unseen[id(code)] = unseen
            self._codes.append(code)
        return self._step if unseen else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            unseen = self._unseen[id(frame.f_code)]
            if frame.f_lineno in unseen:
                unseen.discard(frame.f_lineno)
                self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._step

    def report(self) -> dict[str, str]:
        """Return the covered part of all modules and of each."""
        notes, all_lines = {}, set()
        for name in self._modules:
            files = _list_files(name)
            lines = {(file, line) for file in files for line in self._list_functions(file)}
            all_lines |= lines
            if lines:
                notes[name] = f"{len(lines & self.seen) / len(lines):.0%}"
        total = f"{len(all_lines & self.seen):,} of {len(all_lines):,} lines"
        each = ", ".join(f"{name.removeprefix('ontodex.')} {part}" for name, part in notes.items())
        return {"coverage": f"{len(all_lines & self.seen) / len(all_lines):.0%}, {total} ({each})"}

    def _list_functions(self, file: str) -> set[int]:
        """Return the lines of all wanted functions in a file."""
        lines: set[int] = set()
        waiting = [compile(Path(file).read_text(encoding="utf-8"), file, "exec")]
        while waiting:
            code = waiting.pop()
            is_function = code.co_flags & inspect.CO_NEWLOCALS  # not a module or a class
            if is_function and not self._is_wanted(code.co_name):
                continue
            waiting += [value for value in code.co_consts if isinstance(value, CodeType)]
            if is_function:
                lines |= set(_list_lines(code))
        return lines


def _list_files(name: str) -> list[str]:
    """Return the files of a module, or of all modules of a package."""
    module = importlib.import_module(name)
    if not hasattr(module, "__path__"):
        return [str(module.__file__)]
    found = pkgutil.walk_packages(module.__path__, f"{name}.")
    specs = [importlib.util.find_spec(inner.name) for inner in found]
    return [str(spec.origin) for spec in specs if spec is not None]


def _list_lines(code: CodeType) -> Iterator[int]:
    return (line for *_, line in code.co_lines() if line and line != code.co_firstlineno)
