from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ontodex.errors import ConfigError, DataError
from ontodex.io.files import (
    get_cache_folder,
    open_atomic,
    open_bytes,
    read_lines,
    replace_file,
    replace_folder,
    write_text,
)


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path):
    path = tmp_path / "f"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError), open_atomic(path) as file:
        file.write(b"half of the ne")
        1 / 0  # noqa: B018
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_the_place_of_a_file_is_named_as_it_was_given(tmp_path):
    with pytest.raises(IsADirectoryError) as met:
        write_text(tmp_path, "text")
    assert met.value.filename == str(tmp_path)


def test_a_folder_that_fails_leaves_the_old_folder_and_no_rest(tmp_path):
    with replace_folder(tmp_path / "d") as folder:
        (folder / "f").write_text("old")
    with pytest.raises(ZeroDivisionError), replace_folder(tmp_path / "d") as folder:
        (folder / "f").write_text("new")
        1 / 0  # noqa: B018
    assert [p.name for p in tmp_path.iterdir()] == ["d"]
    assert (tmp_path / "d" / "f").read_text() == "old"
    with replace_folder(tmp_path / "d") as folder:
        (folder / "g").write_text("new")
    assert [p.name for p in (tmp_path / "d").iterdir()] == ["g"]
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_a_named_temporary_becomes_the_file(tmp_path):
    with replace_file(tmp_path / "f") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "f").exists()
    assert (tmp_path / "f").read_text() == "new"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_packing_is_known_by_content_not_by_name(tmp_path, pack):
    path = tmp_path / "whatever.name"
    path.write_bytes(pack(b"eins\nzwei"))
    assert list(read_lines(path)) == [(1, "eins"), (2, "zwei")]


def test_byte_order_mark_and_windows_line_ends_are_taken_away(tmp_path):
    path = tmp_path / "f"
    path.write_bytes("\ufeffeins\r\nzw\u2028ei\r\n".encode())
    assert list(read_lines(path)) == [(1, "eins"), (2, "zw\u2028ei")]


def test_bad_utf8_names_line_and_byte(tmp_path):
    path = tmp_path / "f"
    path.write_bytes("fïne\n".encode() + b"na\xefve\n")
    with pytest.raises(DataError, match=r"f:2: not UTF-8: byte 0xef at column 3"):
        list(read_lines(path))


def test_nul_in_text_names_the_line(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"fine\nna\0ve\n")
    with pytest.raises(DataError, match=r"f:2: a NUL"):
        list(read_lines(path))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_truncated_packed_file_is_a_data_error(tmp_path, pack):
    path = tmp_path / "f.packed"
    path.write_bytes(pack(random.Random(0).randbytes(100_000))[:50_000])
    with pytest.raises(DataError, match="damaged or cut off"):
        open_bytes(path).read()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_bomb_is_stopped_long_before_it_unpacks(tmp_path, pack):
    path = tmp_path / "bomb"
    path.write_bytes(pack(bytes(100 * 2**20)))
    seen = 0
    with pytest.raises(DataError, match="decompression bomb"), open_bytes(path) as file:
        while block := file.read(2**20):
            seen += len(block)
    assert seen < 70 * 2**20


WRITER = """
    import sys
    from pathlib import Path
    from ontodex.io.files import open_atomic
    number = 0
    while True:
        number += 1
        with open_atomic(Path(sys.argv[1])) as file:
            for _ in range(20):
                file.write((f"{number} " * 1000).encode())
            file.write(b"end")
        print(number, flush=True)
"""


@pytest.mark.slow
def test_a_process_killed_while_writing_never_leaves_a_torn_file(tmp_path):
    path = tmp_path / "f"
    rng = random.Random(1)
    for _ in range(20):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(path)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(rng.random() * 0.05)  # a random moment is the point of this test
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        words = path.read_text().split()
        assert words[-1] == "end"
        assert len(set(words[:-1])) == 1
        assert len(words) == 20_001


@pytest.mark.slow
def test_a_full_disk_keeps_the_old_file_and_ends_with_an_error(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        write_text(disk / "f", "old")
        with pytest.raises(OSError, match="No space left"), open_atomic(disk / "f") as file:
            file.write(bytes(2 * 2**20))
        assert (disk / "f").read_text() == "old"
        assert [p.name for p in disk.iterdir()] == ["f"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_missing_files_are_data_errors(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        open_bytes(Path(tmp_path / "nothing"))


@pytest.mark.parametrize("action", [open_bytes, lambda path: write_text(path, "x")])
def test_a_name_that_is_not_utf8_is_refused(action, tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xffad"))
    path.touch()
    with pytest.raises(DataError, match="b\ufffdad: this name is not UTF-8"):
        action(path)
    path.unlink()  # pytest shows the names of its folders


def test_a_user_without_a_home_folder_must_name_the_cache(monkeypatch):
    def refuse() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("ONTODEX_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", refuse)
    with pytest.raises(ConfigError, match="no home folder") as caught:
        get_cache_folder()
    assert "ONTODEX_CACHE" in caught.value.hint
