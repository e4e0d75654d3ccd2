"""The reverse proxy that authenticates users, for example by OpenID Connect.

It sends the user's name in a header. A client could send the same header, so it counts only from
the proxy's addresses and, with a secret, only beside that secret in the header X-Proxy-Secret.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from ontodex.errors import ConfigError
from ontodex.io.files import get_stamp
from ontodex.serve.http.api_keys import is_valid_name

logger = logging.getLogger(__name__)

SECRET_HEADER = b"x-proxy-secret"
MIN_SECRET = 16  # characters
Network = IPv4Network | IPv6Network
Headers = Mapping[bytes, bytes]


class TrustedProxy:
    """The check whether a request comes from the proxy, and the user that it names."""

    def __init__(
        self, proxies: Iterable[str], *, user_header: str = "", secret_file: Path | None = None
    ) -> None:
        self._networks = [read_network(one) for one in proxies]
        self._user_header = user_header.lower().encode()
        self._secrets = None if secret_file is None else ProxySecrets(secret_file)

    @property
    def headers(self) -> set[bytes]:
        """The headers that no request may have twice: a client's could stand beside the proxy's."""
        return {self._user_header, SECRET_HEADER} - {b""}

    @property
    def names_users(self) -> bool:
        """True if the proxy sends names of users."""
        return bool(self._user_header)

    def has_sent(self, address: str | None, headers: Headers) -> bool:
        """Return whether a request comes from the proxy."""
        if not any(_is_in(address, network) for network in self._networks):
            return False
        return self._secrets is None or self._secrets.has(headers.get(SECRET_HEADER, b""))

    def read_user(self, headers: Headers) -> str | None:
        """Return the name in a request from the proxy; None if there is none, or not a name."""
        if not self.names_users:
            return None
        try:
            name = headers.get(self._user_header, b"").decode("utf-8")
        except UnicodeDecodeError:  # replaced characters could make two names equal
            return None
        return name if is_valid_name(name) else None


class ProxySecrets:
    """The secrets of a file, one a line; a change of the file takes effect at the next request."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, get_stamp(path)
        self._secrets = _read_secrets(path)

    def has(self, secret: bytes) -> bool:
        """Return whether a secret is in the file, in constant time."""
        stamp = get_stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._secrets = _read_secrets(self._path)
            except ConfigError as error:
                self._secrets = []
                logger.error("%s; no proxy is trusted until the file is repaired", error)
        return sum(hmac.compare_digest(known, secret) for known in self._secrets) > 0


def read_network(text: str) -> Network:
    """Return an address or a network such as 10.42.0.0/16."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigError(
            f"--proxy {text!r} is no IP address or network ({error})",
            hint="write 10.0.0.7, or 10.42.0.0/16 for a network",
        ) from error


def _is_in(address: str | None, network: Network) -> bool:
    try:
        found = ip_address(address or "")
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found in network


def _read_secrets(path: Path) -> list[bytes]:
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is not a regular file")
    try:
        lines = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a file of secrets ({error})") from error
    if not lines or min(map(len, lines)) < MIN_SECRET:
        raise ConfigError(
            f"{path}: needs secrets of at least {MIN_SECRET} ASCII characters, one a line",
            hint="openssl rand -hex 32 prints one",
        )
    return [line.encode() for line in lines]
