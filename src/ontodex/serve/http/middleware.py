"""Checks around every route, headers of every answer, and the record of every request.

    Host header ─ origin ─ body size ─ user ─ room in the queue ─ the routes

It is plain ASGI, because a request must be refused before any byte of its body is read, and because
a refusal under overload must cost almost nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ontodex.serve.http.problems import Problem, convert_error
from ontodex.serve.http.traces import Finish
from ontodex.serve.http.trusted_proxy import TrustedProxy
from ontodex.serve.service import Service

logger = logging.getLogger(__name__)

COOKIE = "ontodex_key"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
# These need no key: the page's own files hold nothing secret, and the page asks for the key.
OPEN = ("/", "/docs", "/login", "/healthz", "/readyz")
OPEN_FOLDER = "/page/"
UPLOAD = "/documents/upload"
OPEN_TO_SITES = "/reconcile/"
NEED_MODELS = ("/suggest", "/suggest-batch", "/explain", "/predict")
BODY_SECONDS = 30  # between two pieces of a body
WHOLE_BODY_SECONDS = 600
CLIENT_GONE = 499  # in log and metrics only: nobody receives it
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": CONTENT_POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class _ClientGoneError(Exception):
    """The client closed the connection."""


class User(NamedTuple):
    """The user of a request. The name signs decisions."""

    name: str
    authentication: str  # key, proxy or loopback


class RequestGuard:
    """ASGI middleware that refuses requests early, and records every answer."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service, self._config = app, service, service.config
        self._n_refused, self._log_refusals_at = 0, 0.0
        self._is_allowed_host = lru_cache(maxsize=256)(self._check_host)
        config = service.config
        self._proxy = TrustedProxy(
            config.proxies, user_header=config.user_header, secret_file=config.proxy_secret
        )
        self._unique_headers = {b"host", *self._proxy.headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # answered as GET; uvicorn omits the body
            scope = {**scope, "method": "GET"}
        traced = self._service.traces.trace_request(
            scope["method"], scope["path"], self._find_trace(scope)
        )
        with traced as finish:
            await self._answer_and_record(scope, receive, send, finish)

    async def _answer_and_record(
        self, scope: Scope, receive: Receive, send: Send, finish: Finish
    ) -> None:
        started, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                more = [pair for pair in HEADERS.items() if pair[0] not in own]
                more += self._share_with_sites(scope)
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            try:
                self._check(scope)
                if _needs_models(scope):
                    await self._answer_unless_gone(scope, receive, send_with_headers)
                else:
                    await self._app(scope, self._limit_body(scope, receive), send_with_headers)
            except _ClientGoneError:
                status = CLIENT_GONE
            except Problem as problem:
                await problem.to_response()(scope, receive, send_with_headers)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            finish(get_route(scope), status)

    def _find_trace(self, scope: Scope) -> dict[str, str]:
        """Return the headers that name the trace of which a request is a part, from the proxy."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if b"traceparent" not in headers or not self._is_from_proxy(scope, headers):
            return {}
        return {"traceparent": headers[b"traceparent"].decode("latin-1")}

    def _check(self, scope: Scope) -> None:
        """Raise a Problem if the request must not reach the routes."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._check_unique(scope)
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_allowed_host(host):
            raise Problem(
                421,
                "the Host header is not an allowed host of this service",
                hint="serve with --allowed-host HOST",
            )
        if not self._may_cross_sites(scope, headers):
            check_origin(headers, host)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 15 or int(length) > self._get_max_bytes(scope):
            raise make_too_large(self._get_max_bytes(scope))
        if (user := self._authenticate(scope, headers)) is not None:
            scope.setdefault("state", {})["user"] = user
        elif scope["path"] not in OPEN and not scope["path"].startswith(OPEN_FOLDER):
            raise self._make_unauthorized()
        # Requests that come while the service stops are answered: they are few, because it has
        # closed its port, and closes each connection after its answer.
        if _needs_models(scope) and self._service.batcher.is_full:
            raise convert_error(self._service.batcher.make_full_error())

    def _check_unique(self, scope: Scope) -> None:
        """Refuse a second header of a kind that a proxy checks or sets: it may mean the other."""
        found = [name for name, _ in scope["headers"] if name in self._unique_headers]
        for name in self._unique_headers:
            if found.count(name) > 1:
                close = {"connection": "close"}
                title = name.decode().title()
                raise Problem(400, f"the request has more than one {title} header", headers=close)

    def _may_cross_sites(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Return whether another site may send this request: OpenRefine's page, to /reconcile.

        A frame sends no origin; its page names the sites that may frame it.
        """
        origins = self._config.allowed_origins
        if not origins or not scope["path"].startswith(OPEN_TO_SITES):
            return False
        origin = headers.get(b"origin")
        return origin is None or origin.decode("latin-1") in origins

    def _share_with_sites(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the headers with which a browser gives the answer to an allowed site."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if b"origin" not in headers or not self._may_cross_sites(scope, headers):
            return []
        return [(b"access-control-allow-origin", headers[b"origin"]), (b"vary", b"origin")]

    def _check_host(self, host: str) -> bool:
        """Return whether a Host header is an IP address or an allowed name.

        A hostile name server can point its own name here (DNS rebinding), but no IP address.
        """
        parts = _HOST.fullmatch(host)
        name = parts[1].strip("[]").lower() if parts else ""
        return name == "localhost" or name in self._config.allowed_hosts or _is_address(name)

    def _authenticate(self, scope: Scope, headers: dict[bytes, bytes]) -> User | None:
        """Return the user by proxy header, key or loopback; None if a key is missing or unknown."""
        from_proxy = self._is_from_proxy(scope, headers)
        if from_proxy and headers.get(b"x-forwarded-proto") == b"https":
            scope["scheme"] = "https"  # the login's cookie is then marked Secure
        if from_proxy and (name := self._proxy.read_user(headers)) is not None:
            return User(name, "proxy")
        if self._service.keys is None:
            return None if self._proxy.names_users else User("local", "loopback")
        owner = self._service.keys.find_name(_read_key(headers))
        return None if owner is None else User(owner, "key")

    def _is_from_proxy(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        address = scope["client"][0] if scope.get("client") else None
        return self._proxy.has_sent(address, headers)

    def _make_unauthorized(self) -> Problem:
        if self._service.keys is None:
            return Problem(401, "the request names no user: send it through the proxy")
        hint = "send Authorization: Bearer KEY, or POST /login"
        headers = {"www-authenticate": "Bearer"}
        return Problem(401, "this service needs a key", hint=hint, headers=headers)

    def _get_max_bytes(self, scope: Scope) -> int:
        """Return the largest allowed body in bytes."""
        config = self._config
        return config.max_upload if scope["path"] == UPLOAD else config.max_body

    async def _answer_unless_gone(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the routes, and cancel them when the client closes the connection."""
        is_complete = asyncio.Event()
        body = self._limit_body(scope, receive, is_complete)
        answer = asyncio.ensure_future(self._app(scope, body, send))

        async def watch() -> None:
            await is_complete.wait()
            await receive()  # after the body only the end of the connection can come
            answer.cancel()

        watcher = asyncio.create_task(watch())
        try:
            await answer
        except asyncio.CancelledError:
            if watcher.done():
                raise _ClientGoneError from None
            raise
        finally:
            watcher.cancel()

    def _limit_body(
        self, scope: Scope, receive: Receive, is_complete: asyncio.Event | None = None
    ) -> Receive:
        """Return a `receive` that counts the bytes, because a chunked body has no length header.

        `is_complete` is set when the whole body has come.
        """
        n_bytes, max_bytes = 0, self._get_max_bytes(scope)
        deadline = time.monotonic() + WHOLE_BODY_SECONDS
        is_complete = is_complete or asyncio.Event()

        async def count_and_receive() -> Message:
            nonlocal n_bytes
            if is_complete.is_set():
                return await receive()  # waits until the client closes the connection
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    message = await receive()
            except TimeoutError:
                raise Problem(408, f"no more of the body came for {BODY_SECONDS} s") from None
            if not message.get("more_body", False):
                is_complete.set()
            elif time.monotonic() > deadline:
                raise Problem(408, f"the body took longer than {WHOLE_BODY_SECONDS} s")
            n_bytes += len(message.get("body", b""))
            if n_bytes > max_bytes:
                raise make_too_large(max_bytes)
            return message

        return count_and_receive

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = get_route(scope)
        self._service.metrics.record_request(scope["method"], route, status, seconds)
        if status == 429:
            self._log_refusals()
            return
        user = scope.get("state", {}).get("user")
        fields = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 2),
            "user": user.name if user else None,
        }
        logger.info("request", extra={"fields": fields})

    def _log_refusals(self) -> None:
        """Log refusals at most once a second: there may be thousands of them."""
        self._n_refused += 1
        if (now := time.monotonic()) >= self._log_refusals_at:
            logger.warning("refused", extra={"fields": {"requests": self._n_refused}})
            self._n_refused, self._log_refusals_at = 0, now + 1


def get_route(scope: Scope) -> str:
    """Return the template of the path: paths and queries may contain text of a document."""
    return getattr(scope.get("route"), "path", "other")


def _needs_models(scope: Scope) -> bool:
    return scope["method"] == "POST" and scope["path"].endswith(NEED_MODELS)


def make_too_large(max_bytes: int) -> Problem:
    return Problem(
        413,
        f"the body is larger than {max_bytes:,} bytes",
        hint="send less at a time, or serve with a larger --max-body or --max-upload",
        headers={"connection": "close"},
    )


def check_origin(headers: dict[bytes, bytes], host: str) -> None:
    """Refuse requests that a browser sends for another site; programs send neither header."""
    origin = headers.get(b"origin")
    is_foreign = origin is not None and origin.decode("latin-1").partition("://")[2] != host
    if is_foreign or headers.get(b"sec-fetch-site") == b"cross-site":
        raise Problem(403, "requests from other sites are refused")


def _read_key(headers: dict[bytes, bytes]) -> str:
    """Return the key of the Authorization header, else of the cookie, else an empty string."""
    scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return cookie_parser(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE, "")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
