"""The same training in one process and in two."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

SCRIPT = """
    import os, sys
    sys.path.insert(0, sys.argv[1])
    import torch
    torch.set_num_threads(1)
    from safetensors.torch import save_file
    {training}
    if os.environ.get("RANK", "0") == "0":
        save_file({{str(i): w for i, w in enumerate(weights(net))}}, sys.argv[2])
    if os.environ.get("WORLD_SIZE"):
        torch.distributed.destroy_process_group()
"""
TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


@pytest.fixture
def assert_same_in_two_processes(tmp_path: Path) -> Callable[[str], None]:
    """Asserts that two processes end with the weights of one. `training`, lines of Python that may
    import this folder's tests, leaves a network in `net` and a function `weights`."""

    def check(training: str) -> None:
        from safetensors.torch import load_file

        script = tmp_path / "train.py"
        lines = textwrap.indent(textwrap.dedent(training).strip(), "    ").lstrip()
        script.write_text(textwrap.dedent(SCRIPT.format(training=lines)))
        here = str(Path(__file__).parent)
        one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
        subprocess.run([sys.executable, str(script), here, str(one)], check=True)
        launched = [sys.executable, *TWO, str(script), here, str(two)]
        subprocess.run(launched, check=True, capture_output=True)
        alone, together = load_file(one), load_file(two)
        assert alone
        for name, value in alone.items():
            torch.testing.assert_close(together[name], value, rtol=1e-4, atol=1e-5)

    return check
