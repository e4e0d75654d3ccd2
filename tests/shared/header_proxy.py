"""A reverse proxy like those of OpenID Connect: it knows sessions, and sends a user header."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from patience import PATIENCE


@contextmanager
def run_proxy(upstream: str, users: Mapping[str, str], secret: str) -> Iterator[str]:
    """Forward requests to a service; give the proxy's own address.

    `users` has the name of the user of each session cookie. A request without one is answered 401.
    """

    class Handler(BaseHTTPRequestHandler):
        def _forward(self) -> None:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get("session")
            user = users.get(cookie.value if cookie else "")
            if user is None:
                self.send_error(401)
                return
            dropped = ("x-remote-user", "x-proxy-secret", "cookie", "connection")
            headers = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
            own = {"X-Remote-User": user, "X-Proxy-Secret": secret, "X-Forwarded-Proto": "https"}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(upstream, timeout=PATIENCE)
            connection.request(self.command, self.path, body, headers | own)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _forward  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
