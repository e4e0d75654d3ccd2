"""End a child process with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def end_with_parent(parent: int) -> None:
    """Let the system end this process when its parent, the process `parent`, has ended.

    A parent that is killed cannot end its children itself. Only Linux can do this (prctl with
    PR_SET_PDEATHSIG); elsewhere the child ends when its work is done.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        raise SystemExit(1)
