"""Checks around every route: host, origin, key and size; and the headers of every answer."""

from __future__ import annotations

import asyncio

import pytest

from ontodex.serve.http import api_keys, middleware


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "keys.tsv"


def test_another_host_name_is_refused(start):
    client = start(allowed_hosts=("index.example.org",))
    for host in ("localhost", "127.0.0.1:8000", "[::1]:8000", "index.example.org"):
        assert client.get("/me", headers={"host": host}).status_code == 200, host
    for host in ("evil.example.com", "localhost.evil.com", "", "[", "a b", "127.0.0.1.evil.com"):
        answer = client.get("/me", headers={"host": host})
        assert (answer.status_code, answer.json()["status"]) == (421, 421), host


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example.com"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}],
)
def test_requests_from_other_sites_are_refused(client, headers):
    answer = client.post("/logout", headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_requests_of_the_page_itself_are_answered(client):
    headers = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert client.get("/me", headers=headers).status_code == 200


def test_without_keys_loopback_is_open_and_signed_local(client):
    assert client.get("/me").json() == {"name": "local", "authentication": "loopback"}


def test_every_route_but_the_probes_and_the_page_needs_a_key(start, key_file):
    api_keys.add_key(key_file, "ada")
    client = start(keys=key_file)
    described = client.app._app.openapi()["paths"]
    is_open = {"/", "/docs", "/page/{name}", "/login", "/healthz", "/readyz"}
    for path, methods in described.items():
        for method in methods:
            answer = client.request(method, path.replace("{", "").replace("}", ""))
            assert (answer.status_code == 401) == (path not in is_open), path
    assert client.get("/openapi.json").status_code == 401


def test_a_key_names_the_user_until_it_is_removed(start, key_file):
    key = api_keys.add_key(key_file, "ada")
    api_keys.add_key(key_file, "grace")
    client = start(keys=key_file)
    assert key not in key_file.read_text()
    headers = {"authorization": f"Bearer {key}"}
    assert client.get("/me", headers=headers).json() == {"name": "ada", "authentication": "key"}
    assert client.get("/me", headers={"authorization": "Bearer x"}).status_code == 401
    api_keys.remove_key(key_file, "ada")
    assert client.get("/me", headers=headers).status_code == 401
    key_file.unlink()
    assert client.get("/me", headers=headers).status_code == 401


def test_a_large_body_is_refused_by_its_length(start):
    client = start(max_body=1000)
    answer = client.post("/suggest", content=b"x" * 1001)
    assert (answer.status_code, answer.json()["status"]) == (413, 413)
    for length in ("9" * 5000, "-1", "1e3"):
        assert client.post("/suggest", headers={"content-length": length}).status_code == 413


def test_a_large_body_without_length_is_refused_as_it_comes(start):
    client = start(max_body=1000)
    sent = 0

    def pieces():
        nonlocal sent
        for _ in range(50):
            sent += 100
            yield b" " * 100

    headers = {"content-type": "application/json"}
    answer = client.post("/suggest", content=pieces(), headers=headers)
    assert answer.status_code == 413


def send_pieces(client, n_pieces):
    """Send some pieces of a body, then nothing more; return the status of the answer."""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/suggest", "headers": headers}
    scope |= {"scheme": "http", "query_string": b"", "client": ("testclient", 1), "state": {}}
    pieces = iter([b" "] * n_pieces)
    statuses = []

    async def receive():
        for piece in pieces:
            return {"type": "http.request", "body": piece, "more_body": True}
        await asyncio.Event().wait()

    async def send(message):
        statuses.append(message.get("status"))

    client.portal.call(client.app, scope, receive, send)
    return statuses[0]


def test_a_body_that_stops_is_408(client, monkeypatch):
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.05)
    assert send_pieces(client, 1) == 408


def test_a_body_that_takes_too_long_is_408_however_steadily_it_comes(client, monkeypatch):
    monkeypatch.setattr(middleware, "WHOLE_BODY_SECONDS", -1)
    assert send_pieces(client, 1) == 408


def test_every_answer_has_a_strict_policy(client):
    for path in ("/", "/runs", "/nothing", "/page/none.js"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_head_is_get_without_the_body(client):
    for path in ("/", "/healthz", "/readyz", "/runs"):
        head, whole = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]


def test_a_full_queue_is_429_with_retry_after(start):
    client = start(queue=1)
    client.app._service.batcher._waiting = 1
    for path in ("/suggest", "/v1/projects/small/suggest", "/v1/projects/small/suggest-batch"):
        answer = client.post(path, json={"documents": [{"text": "trout"}]})
        assert (answer.status_code, answer.json()["title"]) == (429, "Too Many Requests")
        assert int(answer.headers["retry-after"]) >= 1


def test_two_host_headers_are_refused(client):
    headers = [("host", "localhost"), ("host", "evil.example.com")]
    answer = client.get("/me", headers=headers)
    assert answer.status_code in (400, 421)
    answer = client.get("/me", headers=[("host", "evil.example.com"), ("host", "localhost")])
    assert answer.status_code in (400, 421)


def test_every_route_takes_json_through_the_limits(client):
    deep = b"[" * 100_000
    described = client.app._app.openapi()["paths"]
    n_asked = 0
    for path, methods in described.items():
        for method, operation in methods.items():
            if "application/json" not in operation.get("requestBody", {}).get("content", {}):
                continue
            n_asked += 1
            path = (
                path.replace("{number}", "1").replace("{id}", "1").replace("{project_id}", "small")
            )
            headers = {"content-type": "application/json"}
            answer = client.request(method, path, content=deep, headers=headers)
            assert answer.status_code == 422, path
            assert "nested deeper than 32 levels" in answer.json()["detail"], path
    assert n_asked > 8
