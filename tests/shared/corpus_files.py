"""Corpora written as files, for tests of what reads a path."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from ontodex.types import Doc


def write_jsonl(docs: Iterable[Doc], path: Path) -> Path:
    """Write documents in the JSONL format; return the path."""
    rows = ({"id": doc.id, **doc.fields, "labels": list(doc.labels)} for doc in docs)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
