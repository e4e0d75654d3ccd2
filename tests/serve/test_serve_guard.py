"""Who may ask, from where, how much; and what every answer carries."""

from __future__ import annotations

import io
import json
import logging

import pytest

from ontodex.errors import ConfigError
from ontodex.serve import keys
from ontodex.serve.logs import JsonLines
from ontodex.serve.service import ServeConfig

SECRET = "the minister's unpublished letter"


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "keys.tsv"


def test_another_host_name_is_refused(start):
    client = start(names=("index.example.org",))
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


def test_the_page_itself_may_ask(client):
    headers = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert client.get("/me", headers=headers).status_code == 200


def test_without_keys_loopback_is_open_and_signed_local(client):
    assert client.get("/me").json() == {"name": "local", "by": "loopback"}


def test_binding_elsewhere_wants_keys(key_file):
    with pytest.raises(ConfigError, match="needs keys"):
        ServeConfig(host="0.0.0.0")
    keys.add(key_file, "ada")
    assert ServeConfig(host="0.0.0.0", keys=key_file).port == 8000


def test_every_route_but_the_probes_and_the_page_wants_a_key(start, key_file):
    keys.add(key_file, "ada")
    client = start(keys=key_file)
    described = client.app._app.openapi()["paths"]
    is_open = {"/", "/page/{name}", "/login", "/healthz", "/readyz"}
    for path, methods in described.items():
        for method in methods:
            answer = client.request(method, path.replace("{", "").replace("}", ""))
            assert (answer.status_code == 401) == (path not in is_open), path
    assert client.get("/openapi.json").status_code == 401


def test_a_key_names_who_asks_until_it_is_removed(start, key_file):
    key = keys.add(key_file, "ada")
    keys.add(key_file, "grace")
    client = start(keys=key_file)
    assert key not in key_file.read_text()
    headers = {"authorization": f"Bearer {key}"}
    assert client.get("/me", headers=headers).json() == {"name": "ada", "by": "key"}
    assert client.get("/me", headers={"authorization": "Bearer x"}).status_code == 401
    keys.remove(key_file, "ada")
    assert client.get("/me", headers=headers).status_code == 401
    key_file.unlink()
    assert client.get("/me", headers=headers).status_code == 401


def test_the_cookie_of_a_login_is_for_this_site_and_no_script(start, key_file):
    key = keys.add(key_file, "ada")
    client = start(keys=key_file)
    assert client.post("/login", json={"key": "wrong"}).status_code == 401
    answer = client.post("/login", json={"key": key})
    assert answer.json() == {"name": "ada"}
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/me").json()["name"] == "ada"
    client.post("/logout")
    assert client.get("/me").status_code == 401


def test_a_proxy_is_believed_only_from_its_address(start):
    client = start(user_header="X-User", proxies=("testclient",))
    assert client.get("/me", headers={"x-user": "ada"}).json() == {"name": "ada", "by": "proxy"}
    assert client.get("/me").status_code == 401
    stranger = start(user_header="X-User", proxies=("10.0.0.1",))
    assert stranger.get("/me", headers={"x-user": "ada"}).status_code == 401


def test_the_cookie_is_secure_where_the_proxy_speaks_https(start, key_file):
    key = keys.add(key_file, "ada")
    client = start(keys=key_file, proxies=("testclient",))
    for headers, secure in (({}, False), ({"x-forwarded-proto": "https"}, True)):
        answer = client.post("/login", json={"key": key}, headers=headers)
        assert ("secure" in answer.headers["set-cookie"].lower()) == secure


@pytest.mark.parametrize("name", ["", "a\tb", " ada", "a\nb", "x" * 101])
def test_a_name_must_fit_on_a_line(key_file, name):
    with pytest.raises(ConfigError, match="cannot name a key"):
        keys.add(key_file, name)


def test_a_name_has_one_key_and_a_damaged_file_is_named(key_file):
    keys.add(key_file, "ada")
    with pytest.raises(ConfigError, match="has a key"):
        keys.add(key_file, "ada")
    with pytest.raises(ConfigError, match="no key of 'bob'"):
        keys.remove(key_file, "bob")
    key_file.write_text("ada\tnot a hash\n")
    with pytest.raises(ConfigError, match=r"keys\.tsv:1"):
        keys.Keys(key_file)


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


def test_every_answer_has_a_strict_policy(client):
    for path in ("/", "/runs", "/nothing", "/page/none.js"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_errors_are_problem_documents(client):
    wrong = {
        "/nothing": ("GET", 404),
        "/suggest": ("GET", 405),
        "/documents/99": ("GET", 404),
        "/documents/0": ("GET", 422),
        "/documents/x": ("GET", 422),
        "/decisions/99999999999999999999/undo": ("POST", 422),
        "/runs/none": ("GET", 404),
        "/runs/small/report": ("GET", 404),
    }
    for path, (method, status) in wrong.items():
        answer = client.request(method, path)
        assert answer.status_code == status, path
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
    broken = client.post("/suggest", content=b"{", headers={"content-type": "application/json"})
    assert broken.status_code == 400


@pytest.mark.parametrize("name", ["../api.py", "..%2fapi.py", ".hidden", "page.py", "no.html"])
def test_only_files_of_the_page_are_served(client, name):
    assert client.get(f"/page/{name}").status_code == 404


def test_what_a_document_says_is_in_no_error_and_no_log(client):
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("ontodex.serve")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        answers = [
            client.post("/suggest", json={"documents": [{"text": SECRET, "limit": SECRET}]}),
            client.post("/suggest", json={"documents": [{"text": SECRET}]}),
            client.post("/suggest", content=SECRET, headers={"content-type": "application/json"}),
            client.get("/ontology/search", params={"q": SECRET}),
        ]
        failed = logger.makeRecord("uvicorn.error", 40, "", 1, "failed", (), _raised(), None)
        handler.handle(failed)
    finally:
        logger.removeHandler(handler)
    assert [answer.status_code for answer in answers] == [422, 200, 400, 200]
    assert not any(SECRET in answer.text for answer in answers[:3])
    rows = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert {row["route"] for row in rows[:-1]} == {"/suggest", "/ontology/search"}
    assert (rows[-1]["error"], "_raised" in rows[-1]["at"][-1]) == ("ValueError", True)
    assert SECRET not in lines.getvalue()


def _raised():
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        return type(error), error, error.__traceback__


def test_figures_count_what_happened(client):
    client.post("/suggest", json={"documents": [{"text": "trout"}] * 3})
    client.get("/nothing")
    text = client.get("/metrics").text
    assert 'ontodex_requests_total{method="POST",route="/suggest",status="200"} 1' in text
    assert 'route="other",status="404"} 1' in text
    assert "ontodex_batch_documents_sum 3.0" in text
    status = client.get("/status").json()
    assert status["documents_ranked"] == 3
    assert status["requests"]["answered"] >= 3
    assert status["latency_ms"]["p50"] > 0


def test_ready_until_it_stops(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").status_code == 200
    client.app._service.is_stopping = True
    assert client.get("/readyz").status_code == 503
    answer = client.post("/suggest", json={"documents": [{"text": "trout"}]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
