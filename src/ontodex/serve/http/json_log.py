"""The log as JSON lines. No line contains text of a document."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from typing import Any

# Messages of these loggers contain no document. Of other libraries only the logger's name is kept.
_SAFE_LOGGERS = ("ontodex", "uvicorn.error")
MAX_FRAMES = 12


class JsonFormatter(logging.Formatter):
    """Format a record as one JSON line.

    Of an exception it keeps the type and the source lines, not the message: it may quote a text.
    """

    def format(self, record: logging.LogRecord) -> str:
        is_safe = record.name.startswith(_SAFE_LOGGERS)
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "event": record.getMessage() if is_safe else record.name,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line["error"] = kind.__name__
            frames = traceback.extract_tb(trace)[-MAX_FRAMES:]
            line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line)


def write_json_logs() -> None:
    """Make this process log JSON lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
