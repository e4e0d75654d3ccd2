"""The log as JSON lines: what happened, never what a document says."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from typing import Any

# Spoken by our own code: their messages hold no document. Others (libraries) are cut to a name.
_OURS = ("ontodex", "uvicorn.error")


class JsonLines(logging.Formatter):
    """A record as one line; of an error its places, not its message, which may hold text."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name.startswith(_OURS) else record.name,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line["error"] = kind.__name__
            frames = traceback.extract_tb(trace)
            line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        return json.dumps(line)


def write_json_logs() -> None:
    """From now on the process logs JSON lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
