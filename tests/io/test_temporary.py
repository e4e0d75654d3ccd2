"""Temporary files and folders, and what killed processes leave of them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from ontodex.io import temporary
from ontodex.io.files import open_atomic, replace_folder, write_text
from ontodex.io.temporary import (
    clear_leftovers,
    find_target_name,
    remove_leftovers,
    temporary_folder,
    temporary_name,
)

WRITER = """
import sys
from pathlib import Path
from ontodex.io.files import open_atomic, replace_folder
from ontodex.io.temporary import temporary_folder
how = {"file": open_atomic, "folder": replace_folder, "temporary": temporary_folder}
with how[sys.argv[1]](Path(sys.argv[2])) as made:
    print("here", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def new_process():
    """Forget what this process has seen in folders, as if it had just started."""
    temporary._find_leftovers.cache_clear()


def start_writer(kind: str, target: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", WRITER, kind, target], stdin=pipe, stdout=pipe)
    assert child.stdout is not None
    assert child.stdout.readline() == b"here\n"
    return child


def write(kind: str, target: Path) -> None:
    if kind == "file":
        write_text(target, "new")
    elif kind == "folder":
        with replace_folder(target) as folder:
            write_text(folder / "inside", "new")
    else:
        with temporary_folder(target):
            pass


@pytest.mark.parametrize("kind", ["file", "folder", "temporary"])
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path, kind):
    target = tmp_path / "target"
    with start_writer(kind, target) as child:
        child.kill()
    assert len(list(tmp_path.iterdir())) == 1
    write(kind, target)
    assert [path.name for path in tmp_path.iterdir()] == ([] if kind == "temporary" else ["target"])


@pytest.mark.parametrize("kind", ["file", "folder", "temporary"])
def test_the_files_of_a_living_process_are_left_alone(tmp_path, kind):
    target = tmp_path / "target"
    with start_writer(kind, target) as child:
        (own,) = tmp_path.iterdir()
        write(kind, target)
        remove_leftovers(target)
        clear_leftovers(tmp_path)
        assert own.exists()
        child.communicate(b"")
    assert child.returncode == 0
    assert not own.exists()


def test_a_file_that_another_process_takes_for_abandoned_is_made_again(tmp_path):
    """The other process has locked it, and removes it a moment later."""
    made: list[Path] = []
    removers: list[threading.Thread] = []

    def make(name: Path) -> None:
        name.touch()
        made.append(name)
        if len(made) == 1:
            descriptor = os.open(name, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            removers.append(threading.Timer(0.2, lambda: (name.unlink(), os.close(descriptor))))
            removers[0].start()

    with temporary.create_temporary(tmp_path / "target", make) as name:
        removers[0].join()
        assert name == made[1]
        assert name.exists()
        assert not made[0].exists()


def test_only_leftovers_of_the_target_are_removed(tmp_path):
    (tmp_path / ".a.1.0a1b2c3d.part").write_text("of a")
    (tmp_path / ".b.1.0a1b2c3d.part").mkdir()
    (tmp_path / ".a.part").write_text("somebody's")
    write_text(tmp_path / "a", "new")
    assert {p.name for p in tmp_path.iterdir()} == {"a", ".b.1.0a1b2c3d.part", ".a.part"}
    clear_leftovers(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"a", ".a.part"}


def test_a_leftover_that_is_a_link_does_not_remove_its_target(tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".a.1.0a1b2c3d.part").symlink_to(tmp_path / "precious")
    write_text(tmp_path / "a", "new")
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_folder_is_listed_once_for_many_files(tmp_path, monkeypatch):
    calls = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: calls.append(path) or listdir(path))
    for name in "abc":
        write_text(tmp_path / name, "new")
    assert calls.count(tmp_path) == 1


def test_a_failed_block_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="no"), open_atomic(tmp_path / "a"):
        raise ValueError("no")
    with pytest.raises(ValueError, match="no"), temporary_folder(tmp_path / "b"):
        raise ValueError("no")
    assert not list(tmp_path.iterdir())


def test_a_temporary_folder_is_private(tmp_path):
    with temporary_folder(tmp_path / "a") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700


OMIKUJI = """
import sys
from pathlib import Path
import numpy as np
from scipy.sparse import csr_array
from ontodex.models.trees import omikuji
omikuji._WORKER = "import time; time.sleep(600)"
run, *_ = map(Path, sys.argv[1:])
rows = csr_array(np.eye(4, dtype=np.float32))
print("here", flush=True)
omikuji.train_forest(rows, rows, {}, run)
"""


@pytest.mark.slow
def test_a_killed_training_of_trees_leaves_nothing_in_the_temporary_folder(tmp_path):
    """Version 0.1 left the training data of omikuji in the system's temporary folder."""
    system = tmp_path / "system"
    system.mkdir()
    environment = {**os.environ, "TMPDIR": str(system)}
    command = [sys.executable, "-c", OMIKUJI, tmp_path / "work"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        while not list(tmp_path.glob("work/.*/log.txt")):
            assert child.poll() is None
        child.kill()
    assert not list(system.iterdir())
    assert tempfile.gettempdir() != str(system)


def test_the_name_of_the_target_is_found_again(tmp_path):
    target = tmp_path / "run.v2"
    assert find_target_name(target) == "run.v2"
    assert find_target_name(temporary_name(target)) == "run.v2"
    assert find_target_name(temporary_name(temporary_name(target))) == "run.v2"


@pytest.mark.parametrize("create", [open_atomic, replace_folder, temporary_folder])
def test_a_folder_that_cannot_be_written_is_named_by_the_target(create):
    """Not by the temporary name, which nobody knows: /proc takes no files, for root neither."""
    with pytest.raises(OSError, match="/proc/target") as caught, create(Path("/proc/target")):
        pass
    assert caught.value.filename == "/proc/target"
