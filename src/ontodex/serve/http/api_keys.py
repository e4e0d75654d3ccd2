"""API keys: each has a name that signs decisions; the file holds only hashes.

A key is 32 random bytes, so its plain SHA-256 cannot be inverted by guessing. The file has one line
a name: `name <tab> hash <tab> date`. It is read again when it changes, so a removed key stops
working without a restart.
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
from ontodex.io.files import get_stamp, write_text

logger = logging.getLogger(__name__)

_FORBIDDEN = r"\x00-\x1f\x7f\ud800-\udfff"  # control characters and lone surrogates
_NAME = re.compile(rf"[^\s{_FORBIDDEN}](?:[^{_FORBIDDEN}]{{0,98}}[^\s{_FORBIDDEN}])?")
_HASH = re.compile(r"[0-9a-f]{64}")


def is_valid_name(text: str) -> bool:
    """Return whether the text can name a user: 1 to 100 characters, no control characters."""
    return _NAME.fullmatch(text) is not None


def add_key(path: Path, name: str) -> str:
    """Add a new key for a name and return it. The file stores only its hash."""
    if not is_valid_name(name):
        raise ConfigError(f"{name!r} cannot name a key; use 1 to 100 characters without tabs")
    rows = _read(path) if path.exists() else {}
    if name in rows:
        raise ConfigError(
            f"{path}: {name!r} already has a key", hint="remove it first, or use another name"
        )
    key = secrets.token_urlsafe(32)
    _write(path, {**rows, name: (_hash(key), date.today().isoformat())})
    return key


def remove_key(path: Path, name: str) -> None:
    """Remove the key of a name."""
    rows = _read(path)
    if name not in rows:
        raise ConfigError(f"{path}: there is no key of {name!r}; there are {', '.join(rows)}")
    _write(path, {other: row for other, row in rows.items() if other != name})


def list_keys(path: Path) -> Mapping[str, str]:
    """Return the names that have a key, with the date on which it was made."""
    return {name: day for name, (_, day) in _read(path).items()}


class ApiKeys:
    """The keys of a file; changes of the file take effect at the next request."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, get_stamp(path)
        self._rows = _read(path)
        if not self._rows:
            raise ConfigError(f"{path}: no keys", hint=f"ontodex keys add {path} NAME")

    def find_name(self, key: str) -> str | None:
        """Return the name of the key's owner.

        Every hash is compared in constant time, so the duration reveals nothing.
        """
        self._reload()
        key_hash, owner = _hash(key), None
        for name, (known_hash, _) in self._rows.items():
            if hmac.compare_digest(known_hash, key_hash):
                owner = name
        return owner

    def _reload(self) -> None:
        """Read the file again if it changed. With a missing or damaged file no key is valid."""
        stamp = get_stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._rows = _read(self._path)
        except ConfigError as error:
            self._rows = {}
            logger.error("%s; no key is valid until the file is repaired", error)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, tuple[str, str]]:
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is not a regular file")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a file of keys ({error})") from error
    rows = {}
    for number, line in enumerate(lines, start=1):
        name, _, rest = line.partition("\t")
        key_hash, _, day = rest.partition("\t")
        if not is_valid_name(name) or not _HASH.fullmatch(key_hash):
            raise ConfigError(f"{path}:{number}: not a line `name <tab> hash <tab> date`")
        rows[name] = (key_hash, day)
    return rows


def _write(path: Path, rows: Mapping[str, tuple[str, str]]) -> None:
    lines = (f"{name}\t{key_hash}\t{day}\n" for name, (key_hash, day) in rows.items())
    write_text(path, "".join(lines))
    path.chmod(0o600)
