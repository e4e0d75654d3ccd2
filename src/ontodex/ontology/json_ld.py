"""Contexts of JSON-LD: remote ones are refused, and those that would take long to read."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ontodex.errors import DataError

# Terms that the contexts of any file may copy; a longer file may copy one for each byte.
MIN_COPIED = 100_000


def check_contexts(data: bytes, path: Path) -> None:
    """Raise a DataError for JSON-LD with remote contexts, or with contexts that take long.

    For each context that it enters, pyoxigraph copies all terms in scope. A context is entered
    where it stands, and wherever its term is used if it belongs to one.
    """
    root = _parse_json(data, path)
    copied, largest = 0, 0
    scoped: set[str] = set()  # terms with a context of their own
    waiting: list[tuple[Any, int]] = [([root], 0)]
    while waiting:
        value, n_terms = waiting.pop()
        if isinstance(value, dict) and "@context" in value:
            for context in _list_contexts(value["@context"], path):
                n_terms += len(context)
                scoped.update(name for name, term in context.items() if _has_context(term))
            copied += n_terms
            largest = max(largest, n_terms)
        parts = value.values() if isinstance(value, dict) else value
        waiting.extend((part, n_terms) for part in parts if isinstance(part, dict | list))
    if scoped:
        copied += largest * _count_uses(root, scoped)
    if copied > max(MIN_COPIED, len(data)):
        raise DataError(
            f"its contexts would be copied with {copied:,} terms, which is too much for a file of "
            f"{len(data):,} bytes; this looks like an attack",
            path=path,
            hint="give all nodes one context, or convert the file to Turtle first",
        )


def _parse_json(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON ({error.msg})", path=path, line=error.lineno) from error
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 ({error.reason})", path=path) from error
    except RecursionError as error:
        raise DataError("JSON is nested too deeply", path=path) from error


def _list_contexts(value: Any, path: Path) -> list[dict[str, Any]]:
    """Return the contexts that a node gives; raise a DataError if one of them is elsewhere."""
    contexts = value if isinstance(value, list) else [value]
    found = [context for context in contexts if isinstance(context, dict)]
    for url in (*contexts, *(context.get("@import") for context in found)):
        if isinstance(url, str):
            raise DataError(
                f"needs the remote context {url[:200]!r}; ontodex fetches nothing",
                path=path,
                hint="put the context into the file, or convert it to Turtle first",
            )
    return found


def _has_context(term: Any) -> bool:
    return isinstance(term, dict) and "@context" in term


def _count_uses(root: Any, names: Collection[str]) -> int:
    """Return how often names stand in JSON, as keys or as texts."""
    n_uses, waiting = 0, [root]
    while waiting:
        value = waiting.pop()
        parts = value
        if isinstance(value, dict):
            n_uses += sum(key in names for key in value)
            parts = value.values()
        for part in parts:
            if isinstance(part, dict | list):
                waiting.append(part)
            elif isinstance(part, str):
                n_uses += part in names
    return n_uses
