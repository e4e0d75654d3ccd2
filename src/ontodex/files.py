"""Files that are written whole or not at all, and read without trusting their size.

A write goes to a temporary file in the same folder, is flushed and fsynced, then renamed over the
target, and the folder is fsynced: a kill at any moment leaves the old file or the new one.
"""

from __future__ import annotations

import bz2
import contextlib
import ctypes
import errno
import gzip
import hashlib
import io
import logging
import lzma
import os
import re
import secrets
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from ontodex.errors import DataError, RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A compressed file may not unpack to more than this many times its size once it is past FREE bytes.
# Real text packs 3 to 30 times; a gzip bomb 1,000 times, an xz or bzip2 bomb far more.
MAX_RATIO = 200
FREE = 64 * 2**20

BOM = b"\xef\xbb\xbf"

logger = logging.getLogger(__name__)

_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2"}


@contextlib.contextmanager
def locked(path: Path, what: Path) -> Iterator[None]:
    """Nobody else works on `what`. The lock goes with the process, however that ends; its file at
    `path` goes with the block, and so does the folder of that file if it is left empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        # Its last owner may have taken the file away since it was opened: then it locks nothing.
        if not (_could_lock(file) and _is_at(path, file)):
            raise RunError(f"{what}: another process is working on it", hint="let it finish")
        try:
            yield
        finally:
            if _is_at(path, file):
                path.unlink()
            with contextlib.suppress(OSError):  # there is more in it, or it is gone
                path.parent.rmdir()


def _could_lock(file: IO[str]) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        logger.warning(
            "%s: this file system knows no locks; see to it that no other process works here",
            Path(file.name).parent,
        )
    return True


def _is_at(path: Path, file: IO[str]) -> bool:
    """Whether the open file is the one at the path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """The name of a file to write, which becomes `path` when the block ends well."""
    if path.is_dir():  # said of the place that was named, not of the temporary file
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _part(path)
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the block ends well, and vanishes when it does not."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        yield file
        file.flush()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic(path) as file:
        file.write(text.encode())


def write_tensors(path: Path, arrays: Mapping[str, NDArray[Any]], about: str = "") -> None:
    """Replace a safetensors file by these arrays, and a line about them in its header."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        with atomic_path(path) as temporary:
            save_file(dict(arrays), temporary, metadata={"about": about} if about else None)
    except SafetensorError as error:  # its words for a full disk, a limit, a lost connection
        raise RunError(
            f"{path}: cannot be written ({error}); what was there before is untouched",
            hint="make room, then start the same command again: it goes on where it stopped",
        ) from error


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder that becomes `path` when the block ends well; an older folder there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _part(path)
    temporary.mkdir()
    try:
        yield temporary
        for inside in (temporary, *temporary.rglob("*")):
            sync(inside)
        while not (_renamed(temporary, path) or _exchanged(temporary, path)):
            old = _part(path)
            os.replace(path, old)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync(path.parent)


def _renamed(folder: Path, target: Path) -> bool:
    """Whether it could be renamed; False where another folder, perhaps another process's, is."""
    try:
        os.replace(folder, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _exchanged(folder: Path, target: Path) -> bool:
    """Whether the two changed names in one step, so that `target` is there at every moment; Linux
    can do that, on most file systems."""
    call = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if call is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(call(here, os.fsencode(folder), here, os.fsencode(target), exchange) == 0)


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")


def remove_leftovers(path: Path) -> None:
    """What killed processes left of their writing of this file, where nobody else writes it now."""
    form = re.compile(re.escape(f".{path.name}.") + r"\d+\.[0-9a-f]{8}\.part")
    for beside in path.parent.iterdir():
        if form.fullmatch(beside.name):
            beside.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make the bytes of a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Guarded(io.RawIOBase):
    """Decompressed bytes that stop with a DataError when the file turns out to be a bomb."""

    def __init__(self, path: Path, inner: IO[bytes]) -> None:
        self._path, self._inner, self._read = path, inner, 0
        self._allowed = max(FREE, MAX_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            block = self._inner.read(len(buffer))
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            raise DataError(
                f"the compressed data is damaged or cut off ({error})",
                path=self._path,
                hint="fetch or make the file again",
            ) from error
        self._read += len(block)
        if self._read > self._allowed:
            raise DataError(
                f"unpacks to more than {self._allowed // 2**20:,} MiB, over {MAX_RATIO} times its "
                "size; that looks like a decompression bomb",
                path=self._path,
                hint="unpack it yourself if you trust it, and pass the plain file",
            )
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._inner.close()
        super().close()


def compression(path: Path) -> str | None:
    """'gzip', 'xz' or 'bzip2' by the first bytes of the file, whatever its name; else None."""
    with path.open("rb") as file:
        head = file.read(6)
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def open_bytes(path: Path) -> IO[bytes]:
    """A file for reading; .gz, .xz and .bz2 are unpacked on the way, with a guard against bombs."""
    try:
        kind = compression(path)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", path=path) from error
    if kind is None:
        return path.open("rb")
    opener = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open}[kind]
    return io.BufferedReader(_Guarded(path, opener(path, "rb")), buffer_size=2**20)  # type: ignore[operator]


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, bytes without the line end); a BOM and CRLF are taken away and announced.

    Only LF ends a line: U+2028, U+0085 and form feeds are text.
    """
    n_crlf = 0
    with open_bytes(path) as file:
        for number, raw in enumerate(file, start=1):
            if number == 1 and raw.startswith(BOM):
                raw = raw.removeprefix(BOM)
                logger.info("%s: a byte order mark at its start was left out", path)
            line = raw.removesuffix(b"\n")
            if line.endswith(b"\r") and len(line) < len(raw):
                line = line.removesuffix(b"\r")
                n_crlf += 1
            yield number, line
    if n_crlf:
        logger.info("%s: %s lines ended in CRLF and were read as LF", path, f"{n_crlf:,}")


def decode(raw: bytes, *, path: Path | None = None, line: int | None = None) -> str:
    """The text of UTF-8 bytes; anything else, and NUL, is a DataError."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8: byte 0x{raw[error.start]:02x} at column {error.start + 1}",
            path=path,
            line=line,
            hint="convert the file first, for example with iconv -f LATIN1 -t UTF-8",
        ) from error
    if "\0" in text:
        raise DataError("a NUL character in text", path=path, line=line)
    return text


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, line without its end) of a UTF-8 file; BOM and CRLF are taken away."""
    for number, raw in raw_lines(path):
        yield number, decode(raw, path=path, line=number)


@contextlib.contextmanager
def atomic_packed(path: Path) -> Iterator[IO[bytes]]:
    """As `atomic`, packed when the name ends in .gz, .xz or .bz2; same content, same bytes."""
    with atomic(path) as file:
        if path.suffix == ".gz":
            # mtime 0 and no name: two writes of the same text give the same file.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif path.suffix in (".xz", ".bz2"):
            opener = lzma.open if path.suffix == ".xz" else bz2.open
            with opener(file, "wb") as packed:
                yield packed
        else:
            yield file


def cache_folder() -> Path:
    """Where caches live: $ONTODEX_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("ONTODEX_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ontodex"
