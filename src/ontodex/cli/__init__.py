"""The commands. Each is short: the library does the work, and says what a library user would see.

Nothing heavy is imported here, so that `ontodex --help` answers at once.
"""

from ontodex.cli import data, runs, service
from ontodex.cli.app import app, main

__all__ = ["app", "data", "main", "runs", "service"]
