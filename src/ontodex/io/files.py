"""Write files atomically, and read files of unknown size and encoding safely.

A write goes to a temporary file in the same folder, which is fsynced and renamed over the target;
then the folder is fsynced. A kill at any moment leaves either the old file or the new one.
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
import shutil
import stat
import sys
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from ontodex.errors import ConfigError, DataError, RunError
from ontodex.io.counts import format_count
from ontodex.io.encodings import FALLBACK, Transcoder, describe_guess, detect_encoding
from ontodex.io.temporary import create_temporary, temporary_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Past FREE bytes a compressed file may unpack to at most MAX_RATIO times its size. Real text has a
# ratio of 3 to 30; a gzip bomb of 1,000, an xz or bzip2 bomb of far more. A stream may hold a
# document in every four bytes, so that 64 MiB of it would take minutes.
MAX_RATIO = 200
FREE = 8 * 2**20
FREE_TABLE = 64 * 2**20  # of Parquet and PECOS tables, which count 16 bytes for each value

MAX_LINE = 64 * 2**20  # bytes of one line; a document of 10 million characters fits in

SEPARATOR_LINE = re.compile(r"sep=[,;\t]")  # Excel writes it before the header of a table
BOM = b"\xef\xbb\xbf"

logger = logging.getLogger(__name__)

_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2"}


@contextlib.contextmanager
def hold_lock(path: Path, what: Path) -> Iterator[None]:
    """Hold a lock on `what` while the block runs; raise a RunError if another process holds it.

    The system releases the lock when the process ends. The lock file at `path` is removed with the
    block, and so is its folder if it is empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        # Its last owner may have removed the file since it was opened: then it locks nothing.
        if not (_try_lock(file) and _is_at(path, file)):
            raise RunError(f"{what}: another process is working on it", hint="wait until it ends")
        try:
            yield
        finally:
            if _is_at(path, file):
                path.unlink()
            with contextlib.suppress(OSError):  # not empty, or already gone
                path.parent.rmdir()


def _try_lock(file: IO[str]) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        logger.warning(
            "%s: this file system has no locks; make sure that no other process works here",
            Path(file.name).parent,
        )
    return True


def _is_at(path: Path, file: IO[str]) -> bool:
    """Return whether the open file is the one at the path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Give the name of a temporary file that replaces `path` when the block succeeds."""
    if path.is_dir():  # names the target, not the temporary file
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    check_name(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with create_temporary(path, Path.touch) as temporary:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    sync(path.parent)


@contextlib.contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when the block succeeds, else is removed."""
    with replace_file(path) as temporary, temporary.open("wb") as file:
        yield file
        file.flush()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with open_atomic(path) as file:
        file.write(text.encode())


def write_tensors(path: Path, arrays: Mapping[str, NDArray[Any]], about: str = "") -> None:
    """Write arrays to a safetensors file atomically, with a text about them in its header."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        with replace_file(path) as temporary:
            save_file(dict(arrays), temporary, metadata={"about": about} if about else None)
    except SafetensorError as error:  # a full disk, a quota, a lost connection
        raise RunError(
            f"{path}: cannot be written ({error}); the old file is unchanged",
            hint="free some disk space, then run the same command again: it resumes",
        ) from error


@contextlib.contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder that replaces `path` when the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with create_temporary(path, Path.mkdir) as temporary:
        yield temporary
        for inside in (temporary, *temporary.rglob("*")):
            sync(inside)
        while not (try_rename(temporary, path) or _try_exchange(temporary, path)):
            old = temporary_name(path)
            os.replace(path, old)
            shutil.rmtree(old, ignore_errors=True)
    sync(path.parent)


def try_rename(folder: Path, target: Path) -> bool:
    """Rename the folder; return False if a folder, perhaps of another process, is in the way."""
    try:
        os.replace(folder, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _try_exchange(folder: Path, target: Path) -> bool:
    """Exchange the two names in one step, so that `target` exists at every moment.

    Return False where the system cannot do that; Linux can, on most file systems.
    """
    call = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if call is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(call(here, os.fsencode(folder), here, os.fsencode(target), exchange) == 0)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_SPECIAL = {
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def check_name(path: Path) -> None:
    """Raise a DataError for a name that is not UTF-8: manifests and tables cannot hold it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "replace")
        raise DataError(f"{shown}: this name is not UTF-8", hint="rename it") from None


def check_regular(path: Path) -> None:
    """Raise a DataError for a device, a pipe or a socket: reading one may never end."""
    check_name(path)
    kind = _SPECIAL.get(stat.S_IFMT(path.stat().st_mode))
    if kind is not None:
        raise DataError(
            f"is {kind}, not a regular file",
            path=path,
            hint="write the data to a file and name that file",
        )


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading; refuse what is not one, without waiting for it."""
    check_regular(path)
    # Without O_NONBLOCK, a pipe that has replaced the file since the check would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_IFMT(os.fstat(descriptor).st_mode) in _SPECIAL:
        os.close(descriptor)
        raise DataError("was replaced by a special file", path=path)
    try:
        return os.fdopen(descriptor, "rb")
    except OSError:  # a folder
        os.close(descriptor)
        raise


def get_stamp(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file is replaced, its time and inode; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _BombGuard(io.RawIOBase):
    """A stream of decompressed bytes that raises a DataError for a decompression bomb."""

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
                hint="download or create the file again",
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


def detect_compression(path: Path) -> str | None:
    """Return 'gzip', 'xz', 'bzip2' or None, by the first bytes of the file."""
    with open_regular(path) as file:
        head = file.read(6)
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading; gzip, xz and bzip2 are unpacked, with a guard against bombs."""
    try:
        kind = detect_compression(path)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", path=path) from error
    if kind is None:
        return open_regular(path)
    opener = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open}[kind]
    return io.BufferedReader(_BombGuard(path, opener(path, "rb")), buffer_size=2**20)  # type: ignore[operator]


_logged_versions: set[tuple[str, int, int]] = set()  # files whose encoding was logged


def _log_encoding(path: Path, encoding: str) -> None:
    """Log how a file is read; once for each version of it, though it may be read several times."""
    status = path.stat()
    version = (str(path.resolve()), status.st_size, status.st_mtime_ns)
    if version not in _logged_versions:
        _logged_versions.add(version)
        if encoding == FALLBACK:
            logger.warning("%s: %s", path, describe_guess())
        else:
            logger.info("%s: read as %s", path, encoding)


def open_utf8(path: Path, *, log_guess: bool = True) -> IO[bytes]:
    """Open a text file as UTF-8 bytes; a file in UTF-16, UTF-32 or Windows-1252 is converted.

    The log says so once for each file, unless the caller only looks at its start.
    """
    with open_bytes(path) as file:
        encoding = detect_encoding(file)
    if encoding == "utf-8":
        return open_bytes(path)
    if log_guess:
        _log_encoding(path, encoding)
    return io.BufferedReader(Transcoder(path, open_bytes(path), encoding), buffer_size=2**20)


def read_raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, bytes without the line end); a BOM and CRLF are removed and logged.

    Only LF ends a line: U+2028, U+0085 and form feeds are text.
    """
    n_crlf = 0
    with open_utf8(path) as file:
        for number, raw in enumerate(iter(partial(file.readline, MAX_LINE + 1), b""), start=1):
            if len(raw) > MAX_LINE:
                raise DataError(
                    f"a line of more than {MAX_LINE // 2**20} MiB",
                    path=path,
                    line=number,
                    hint="write each record on a line of its own",
                )
            if number == 1 and raw.startswith(BOM):
                raw = raw.removeprefix(BOM)
                logger.info("%s: a byte order mark at the start was removed", path)
            line = raw.removesuffix(b"\n")
            if line.endswith(b"\r") and len(line) < len(raw):
                line = line.removesuffix(b"\r")
                n_crlf += 1
            yield number, line
    if n_crlf:
        lines = format_count(n_crlf, "line")
        logger.info("%s: %s ended in CRLF and were read as LF", path, lines)


def decode(raw: bytes, *, path: Path | None = None, line: int | None = None) -> str:
    """Decode UTF-8; raise a DataError for other bytes and for NUL."""
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
    """Yield (line number, line without its end) of a UTF-8 file; BOM and CRLF are removed."""
    for number, raw in read_raw_lines(path):
        yield number, decode(raw, path=path, line=number)


@contextlib.contextmanager
def open_atomic_packed(path: Path) -> Iterator[IO[bytes]]:
    """Like `open_atomic`, but compress by the ending of the name: .gz, .xz or .bz2.

    The same content always gives the same bytes.
    """
    with open_atomic(path) as file:
        if path.suffix == ".gz":
            # No time and no name in the header, so that equal content gives equal bytes.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif path.suffix in (".xz", ".bz2"):
            opener = lzma.open if path.suffix == ".xz" else bz2.open
            with opener(file, "wb") as packed:
                yield packed
        else:
            yield file


def get_cache_folder() -> Path:
    """Return $ONTODEX_CACHE, else the cache folder of the user."""
    if chosen := os.environ.get("ONTODEX_CACHE"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "ontodex"
    try:
        return Path.home() / ".cache" / "ontodex"
    except RuntimeError as error:  # a container runs as a user whom it does not know
        raise ConfigError(
            "this user has no home folder for the cache",
            hint="name a folder in the environment variable ONTODEX_CACHE",
        ) from error
