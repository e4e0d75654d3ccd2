"""What stands around every route: who asks, from where, how much; headers, figures and the log.

    host ─ origin ─ size ─ key ─ room in the queue ─ the routes

It is plain ASGI, because a request must be refused before a byte of its body is read, and because
under overload a refusal has to cost almost nothing.
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

from ontodex.serve.keys import is_name
from ontodex.serve.problems import Problem, of_error
from ontodex.serve.service import Service

logger = logging.getLogger(__name__)

COOKIE = "ontodex_key"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
# The page's own files say nothing secret, and the page must be there to ask for a key.
OPEN = ("/", "/login", "/healthz", "/readyz")
OPEN_FOLDER = "/page/"
UPLOAD = "/documents/upload"
NEED_MODELS = ("/suggest", "/suggest-batch", "/explain")
BODY_SECONDS = 30  # between two pieces of a body
GONE = 499  # in log and figures only: nobody is there to read it
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


class _GoneError(Exception):
    """The client hung up."""


class Who(NamedTuple):
    """Who asks, and how we know."""

    name: str
    by: str  # key, proxy or loopback


class Guard:
    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service, self._config = app, service, service.config
        self._n_refused, self._log_refusals_at = 0, 0.0
        self._is_ours = lru_cache(maxsize=256)(self._find_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), 500
        if scope["method"] == "HEAD":  # as GET; the server before us leaves the body out
            scope = {**scope, "method": "GET"}

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                more = [pair for pair in HEADERS.items() if pair[0] not in own]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            try:
                self._check(scope)
                if _needs_models(scope):
                    await self._unless_gone(scope, receive, send_guarded)
                else:
                    await self._app(scope, self._limited(scope, receive), send_guarded)
            except _GoneError:
                status = GONE
            except Problem as problem:
                await problem.response()(scope, receive, send_guarded)
        finally:
            self._record(scope, status, time.perf_counter() - started)

    def _check(self, scope: Scope) -> None:
        """A Problem where the request must not reach the routes."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_ours(host):
            raise Problem(
                421, "this service is not known under this Host", hint="serve --name HOST"
            )
        check_origin(headers, host)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 15 or int(length) > self._most(scope):
            raise too_large(self._most(scope))
        if (who := self._who(scope, headers)) is not None:
            scope.setdefault("state", {})["who"] = who
        elif scope["path"] not in OPEN and not scope["path"].startswith(OPEN_FOLDER):
            raise Problem(
                401,
                "a key is wanted",
                hint="send Authorization: Bearer KEY, or POST /login",
                headers={"www-authenticate": "Bearer"},
            )
        if _needs_models(scope):
            if self._service.is_stopping:
                raise Problem(503, "the service is stopping", headers={"retry-after": "5"})
            if self._service.engine.is_full:
                raise of_error(self._service.engine.busy())

    def _find_host(self, host: str) -> bool:
        """An address cannot be rebound by a hostile name server; a name must be one of ours."""
        parts = _HOST.fullmatch(host)
        name = parts[1].strip("[]").lower() if parts else ""
        return name == "localhost" or name in self._config.names or _is_address(name)

    def _who(self, scope: Scope, headers: dict[bytes, bytes]) -> Who | None:
        config = self._config
        from_proxy = bool(scope.get("client")) and scope["client"][0] in config.proxies
        if from_proxy and headers.get(b"x-forwarded-proto") == b"https":
            scope["scheme"] = "https"  # so that the login's cookie stays there
        if from_proxy and config.user_header:
            user = headers.get(config.user_header.lower().encode(), b"")
            name = user.decode("utf-8", "replace")
            if is_name(name):
                return Who(name, "proxy")
        if self._service.keys is None:
            return None if config.user_header else Who("local", "loopback")
        name_of_key = self._service.keys.name_of(_key(headers))
        return None if name_of_key is None else Who(name_of_key, "key")

    def _most(self, scope: Scope) -> int:
        """Bytes that the body may have."""
        config = self._config
        return config.max_upload if scope["path"] == UPLOAD else config.max_body

    async def _unless_gone(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The routes' answer, given up when the client hangs up: nothing is ranked for nobody."""
        whole = asyncio.Event()
        answer = asyncio.ensure_future(self._app(scope, self._limited(scope, receive, whole), send))

        async def watch() -> None:
            await whole.wait()
            await receive()  # after the body there is only the end of the connection
            answer.cancel()

        watcher = asyncio.create_task(watch())
        try:
            await answer
        except asyncio.CancelledError:
            if watcher.done():
                raise _GoneError from None
            raise
        finally:
            watcher.cancel()

    def _limited(
        self, scope: Scope, receive: Receive, whole: asyncio.Event | None = None
    ) -> Receive:
        """The body, counted as it comes: a chunked one has no length to look at first. `whole` is
        set when all of it came."""
        seen, most = 0, self._most(scope)
        whole = whole or asyncio.Event()

        async def counted() -> Message:
            nonlocal seen
            if whole.is_set():
                return await receive()  # now it waits for the client to go away
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    message = await receive()
            except TimeoutError:
                raise Problem(408, f"no more of the body came for {BODY_SECONDS} s") from None
            if not message.get("more_body", False):
                whole.set()
            seen += len(message.get("body", b""))
            if seen > most:
                raise too_large(most)
            return message

        return counted

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # The template, not the path: paths and queries may hold what a document says.
        route = getattr(scope.get("route"), "path", "other")
        self._service.figures.request(scope["method"], route, status, seconds)
        if status == 429:
            self._log_refusals()
            return
        who = scope.get("state", {}).get("who")
        fields = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 2),
            "who": who.name if who else None,
        }
        logger.info("request", extra={"fields": fields})

    def _log_refusals(self) -> None:
        """One line a second at the most: there may be thousands of them."""
        self._n_refused += 1
        if (now := time.monotonic()) >= self._log_refusals_at:
            logger.warning("refused", extra={"fields": {"requests": self._n_refused}})
            self._n_refused, self._log_refusals_at = 0, now + 1


def _needs_models(scope: Scope) -> bool:
    return scope["method"] == "POST" and scope["path"].endswith(NEED_MODELS)


def too_large(most: int) -> Problem:
    return Problem(
        413,
        f"the body is larger than {most:,} bytes",
        hint="send less at a time, or serve with a larger --max-body or --max-upload",
        headers={"connection": "close"},
    )


def check_origin(headers: dict[bytes, bytes], host: str) -> None:
    """Refuse what a browser sends for another site's page; programs send neither header."""
    origin = headers.get(b"origin")
    foreign = origin is not None and origin.decode("latin-1").partition("://")[2] != host
    if foreign or headers.get(b"sec-fetch-site") == b"cross-site":
        raise Problem(403, "requests from other sites are refused")


def _key(headers: dict[bytes, bytes]) -> str:
    """The key of the Authorization header, else of the cookie, else nothing."""
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
