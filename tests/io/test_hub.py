"""A hub that answers something else, breaks off, or names files outside of its repository."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ontodex.errors import RunError
from ontodex.io.hub import download

COMMIT = "0123456789" * 4


class Hub(ThreadingHTTPServer):
    """A hub with one repository: `names` are its files, or `answer` is all that it says."""

    daemon_threads = True
    names: tuple[str, ...] = ()
    answer: bytes | None = None
    is_broken = False


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.server.is_broken:
            return  # closes the connection without an answer
        files = [{"type": "file", "path": name, "oid": "0" * 40, "size": 2} for name in self.names]
        about = {"id": "ada/trout", "sha": COMMIT, "siblings": []}
        answer: Any = files if "/tree/" in self.path else about
        body = self.server.answer or json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @property
    def names(self) -> tuple[str, ...]:
        return self.server.names


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with Hub(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "name", ["../../../../evil.json", "/evil.json", "a/../../../../b.json", "a\\..\\b.json"]
)
def test_a_listing_with_a_path_outside_of_the_repository_is_refused(hub, tmp_path, name):
    hub.names = (name,)
    with pytest.raises(RunError, match="ada/trout: Invalid filename"):
        download("ada/trout", ("*.json",))
    assert list(tmp_path.rglob("*evil*")) + list(tmp_path.rglob("b.json")) == []


@pytest.mark.parametrize(
    "answer", [b"<html>", b"[1, 2]", b"null", b'{"sha": 1, "siblings": 3}', b"[" * 100_000]
)
def test_an_answer_that_is_not_of_a_hub_is_one_sentence(hub, answer):
    hub.answer = answer
    with pytest.raises(RunError, match=r"^ada/trout: "):
        download("ada/trout", ("*.json",))


def test_a_connection_that_breaks_off_is_one_sentence(hub):
    hub.is_broken = True
    with pytest.raises(RunError, match=r"^ada/trout: "):
        download("ada/trout", ("*.json",))
