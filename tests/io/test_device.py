from __future__ import annotations

import subprocess
import sys

import pytest

from ontodex.errors import ConfigError
from ontodex.io.device import choose_device, describe_machine, describe_thread_limit

# In an interpreter of its own: memory that other tests have freed would be used again.
FREE_EVERY_SECOND_BLOCK = """
from pathlib import Path
import numpy as np
from ontodex.io.device import release_freed_memory

def resident():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

release_freed_memory()
sizes = np.random.default_rng(0).integers(2**20, 2**23, 40)
for _ in range(2):  # after the first large blocks are freed, glibc by itself keeps the next
    before = resident()
    blocks = [np.ones(size, dtype=np.int8) for size in sizes]
    held = resident() - before
    del blocks[::2]
    kept = resident() - before
    assert held > 0.9 * sizes.sum(), (held, sizes.sum())
    assert kept < 0.6 * held, (kept, held)
    blocks.clear()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sets an option of glibc")
def test_freed_blocks_of_any_size_are_given_back_even_between_blocks_in_use():
    subprocess.run([sys.executable, "-c", FREE_EVERY_SECOND_BLOCK], check=True)


def test_the_cpu_is_chosen_without_loading_torch():
    code = "import sys; from ontodex.io.device import choose_device; choose_device('cpu')"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True)


def test_an_unknown_device_is_refused():
    with pytest.raises(ConfigError, match="--device takes auto, cpu or cuda, not 'tpu'"):
        choose_device("tpu")


def test_the_machine_is_described_with_cores_and_thread_limit(monkeypatch):
    assert " cores of " in describe_machine("cpu")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert describe_thread_limit() == ", OMP_NUM_THREADS=3"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert describe_thread_limit() == ""
