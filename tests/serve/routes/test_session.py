"""Login, logout and the cookie with the key."""

from __future__ import annotations

import pytest

from ontodex.serve.http import api_keys


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "keys.tsv"


def test_the_cookie_of_a_login_is_for_this_site_and_no_script(start, key_file):
    key = api_keys.add_key(key_file, "ada")
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


def test_the_cookie_is_secure_where_the_proxy_speaks_https(start, key_file):
    key = api_keys.add_key(key_file, "ada")
    client = start(keys=key_file, proxies=("10.0.0.1",), address="10.0.0.1")
    for headers, secure in (({}, False), ({"x-forwarded-proto": "https"}, True)):
        answer = client.post("/login", json={"key": key}, headers=headers)
        assert ("secure" in answer.headers["set-cookie"].lower()) == secure
