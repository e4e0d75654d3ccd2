"""Named keys: the name signs decisions, the file holds only hashes.

A key is 32 random bytes, so a plain SHA-256 of it cannot be guessed back. The file has a line a
name: `name <tab> hash <tab> date`. It is read again when it changes, so a key that is taken away
stops working without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from ontodex.errors import ConfigError
from ontodex.files import write_text

logger = logging.getLogger(__name__)

_NEVER = r"\x00-\x1f\x7f\ud800-\udfff"  # control characters, and what UTF-8 has not
_NAME = re.compile(rf"[^\s{_NEVER}](?:[^{_NEVER}]{{0,98}}[^\s{_NEVER}])?")
_HASH = re.compile(r"[0-9a-f]{64}")


def is_name(text: str) -> bool:
    """Whether this can sign a decision: 1 to 100 characters, none of them a control character."""
    return _NAME.fullmatch(text) is not None


def add(path: Path, name: str) -> str:
    """A new key for a name; it is in no file, so whoever asked must keep it."""
    if not is_name(name):
        raise ConfigError(f"{name!r} cannot name a key; take 1 to 100 letters without tabs")
    known = _read(path) if path.exists() else {}
    if name in known:
        raise ConfigError(
            f"{path}: {name!r} has a key", hint="remove it first, or take another name"
        )
    key = secrets.token_urlsafe(32)
    _write(path, {**known, name: (_hash(key), date.today().isoformat())})
    return key


def remove(path: Path, name: str) -> None:
    """Take a name's key away."""
    known = _read(path)
    if name not in known:
        raise ConfigError(f"{path}: there is no key of {name!r}; there are {', '.join(known)}")
    _write(path, {other: row for other, row in known.items() if other != name})


def names(path: Path) -> Mapping[str, str]:
    """Who has a key, and since when."""
    return {name: day for name, (_, day) in _read(path).items()}


class Keys:
    """The keys of a file, as it is now."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self._known = _read(path)
        if not self._known:
            raise ConfigError(f"{path}: no keys", hint=f"ontodex keys add {path} NAME")

    def name_of(self, key: str) -> str | None:
        """Whose key it is. Every hash is compared, in constant time: how long it takes says
        nothing."""
        self._read_again()
        given, found = _hash(key), None
        for name, (known, _) in self._known.items():
            if hmac.compare_digest(known, given):
                found = name
        return found

    def _read_again(self) -> None:
        """Follow changes; a file that is gone or damaged lets nobody in."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._known = _read(self._path)
        except ConfigError as error:
            self._known = {}
            logger.error("%s; no key works until it is mended", error)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Changes whenever the file does; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as keys ({error})") from error
    found = {}
    for number, line in enumerate(lines, start=1):
        name, _, rest = line.partition("\t")
        hashed, _, day = rest.partition("\t")
        if not is_name(name) or not _HASH.fullmatch(hashed):
            raise ConfigError(f"{path}:{number}: not a line `name <tab> hash <tab> date`")
        found[name] = (hashed, day)
    return found


def _write(path: Path, keys: Mapping[str, tuple[str, str]]) -> None:
    rows = (f"{name}\t{hashed}\t{day}\n" for name, (hashed, day) in keys.items())
    write_text(path, "".join(rows))
    path.chmod(0o600)
