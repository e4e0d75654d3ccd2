"""Collect the warnings of readers, for a process that reports them elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self.messages:
            self.messages.append(message)


@contextmanager
def capture_warnings() -> Iterator[list[str]]:
    """Collect the warnings of ontodex, each once, while the block runs; nothing else logs them."""
    log, collector = logging.getLogger("ontodex"), _Collector()
    propagate, log.propagate = log.propagate, False
    log.addHandler(collector)
    try:
        yield collector.messages
    finally:
        log.removeHandler(collector)
        log.propagate = propagate
