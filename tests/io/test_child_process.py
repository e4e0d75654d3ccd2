"""Children that end with their parents."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import os, subprocess, sys
code = (
    "from ontodex.io.child_process import end_with_parent; import sys, time;"
    "end_with_parent(int(sys.argv[1])); print('here', flush=True); time.sleep(600)"
)
child = subprocess.Popen([sys.executable, "-c", code, str(os.getpid())], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_child_ends_when_its_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().decode().strip()
        assert child.exists()
        parent.kill()
    for _ in range(2_400):
        if not child.exists() or " Z " in (child / "stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("the child lives on")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_child_whose_parent_has_ended_already_ends():
    code = "from ontodex.io.child_process import end_with_parent; end_with_parent(1 << 30)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1
