"""The folder of a finished run, and a copy of it that a test may damage."""

from floor_run import copy, folder

__all__ = ["copy", "folder"]
