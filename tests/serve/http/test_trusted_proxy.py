"""Users named by a reverse proxy: only from its addresses, only beside its secret, only once."""

from __future__ import annotations

import pytest
import requests

from header_proxy import run_proxy
from ontodex.errors import ConfigError
from ontodex.serve.http.trusted_proxy import TrustedProxy, read_network
from ontodex.serve.service import ServeConfig
from patience import PATIENCE

SECRET = "a-secret-of-the-proxy-alone"
ADA = {"x-user": "ada"}


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    return file


@pytest.mark.parametrize(
    ("proxy", "address", "is_proxy"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.42.0.0/16", "10.42.7.9", True),
        ("10.42.0.0/16", "10.43.0.1", False),
        ("10.42.0.0/16", "::ffff:10.42.7.9", True),
        ("fd00::/8", "fd00::7", True),
        ("0.0.0.0/0", "testclient", False),
        ("0.0.0.0/0", None, False),
    ],
)
def test_a_request_is_of_the_proxy_by_its_address(proxy, address, is_proxy):
    assert TrustedProxy([proxy]).has_sent(address, {}) == is_proxy


def test_the_name_counts_only_from_the_proxy(start):
    proxied = start(user_header="X-User", proxies=("10.0.0.0/8",), address="10.0.0.1")
    assert proxied.get("/me", headers=ADA).json() == {"name": "ada", "authentication": "proxy"}
    assert proxied.get("/me").status_code == 401
    stranger = start(user_header="X-User", proxies=("10.0.0.0/8",), address="11.0.0.1")
    refused = stranger.get("/me", headers=ADA)
    assert refused.status_code == 401
    assert "through the proxy" in refused.json()["detail"]


@pytest.mark.parametrize(
    "name", [b"", b" ", b"a\tb", "é".encode("latin-1"), b"x" * 101, "\u2028".encode() * 101]
)
def test_a_name_that_is_none_signs_nothing(name):
    assert TrustedProxy(["10.0.0.1"], user_header="X-User").read_user({b"x-user": name}) is None


def test_a_name_in_any_script_is_kept(start):
    client = start(user_header="X-User", proxies=("10.0.0.1",), address="10.0.0.1")
    headers = {b"x-user": "Zoë Ωmega".encode()}
    assert client.get("/me", headers=headers).json()["name"] == "Zoë Ωmega"


def test_a_second_name_is_refused(start):
    client = start(user_header="X-User", proxies=("10.0.0.1",), address="10.0.0.1")
    both = client.get("/me", headers=[("x-user", "ada"), ("X-User", "admin")])
    assert both.status_code == 400
    assert "more than one X-User header" in both.json()["detail"]


def test_with_a_secret_the_address_alone_is_not_enough(start, secret):
    client = start(
        user_header="X-User", proxies=("10.0.0.1",), address="10.0.0.1", proxy_secret=secret
    )
    known = {**ADA, "x-proxy-secret": SECRET}
    assert client.get("/me", headers=known).json()["name"] == "ada"
    for wrong in ({}, {"x-proxy-secret": SECRET[:-1]}, {"x-proxy-secret": ""}):
        assert client.get("/me", headers=ADA | wrong).status_code == 401
    secret.write_text(f"{SECRET}\nthe-secret-of-tomorrow\n")
    tomorrow = {**ADA, "x-proxy-secret": "the-secret-of-tomorrow"}
    assert [client.get("/me", headers=one).status_code for one in (known, tomorrow)] == [200, 200]
    secret.unlink()
    assert client.get("/me", headers=known).status_code == 401


def test_a_key_still_works_beside_the_proxy(start, tmp_path):
    from ontodex.serve.http import api_keys

    key = api_keys.add_key(tmp_path / "keys.tsv", "robot")
    client = start(user_header="X-User", proxies=("10.0.0.1",), keys=tmp_path / "keys.tsv")
    headers = {**ADA, "authorization": f"Bearer {key}"}
    assert client.get("/me", headers=headers).json() == {"name": "robot", "authentication": "key"}


def test_a_mistake_in_the_settings_is_a_sentence(tmp_path, secret):
    with pytest.raises(ConfigError, match="no IP address or network"):
        read_network("10.0.0.1/8")
    with pytest.raises(ConfigError, match="needs --user-header"):
        ServeConfig(proxy_secret=secret)
    with pytest.raises(ConfigError, match="so it needs keys"):
        ServeConfig(host="0.0.0.0", user_header="X-User")
    assert ServeConfig(host="0.0.0.0", user_header="X-User", proxy_secret=secret).keys is None
    short = tmp_path / "short"
    for content in ("", "short\n", "é" * 20):
        short.write_text(content)
        with pytest.raises(ConfigError, match="secret"):
            TrustedProxy(["10.0.0.1"], user_header="X-User", secret_file=short)


@pytest.mark.slow
def test_a_session_of_a_proxy_signs_decisions(launch, secret):
    server = launch("--user-header", "X-Remote-User", "--proxy-secret", str(secret))
    forged = {"X-Remote-User": "admin", "X-Proxy-Secret": SECRET}
    upstream = server.address.removeprefix("http://")
    with run_proxy(upstream, {"s1": "ada@example.org"}, SECRET) as proxy:
        cookies = {"session": "s1"}
        assert requests.get(proxy + "/me", timeout=PATIENCE).status_code == 401
        me = requests.get(proxy + "/me", cookies=cookies, headers=forged, timeout=PATIENCE)
        assert me.json() == {"name": "ada@example.org", "authentication": "proxy"}
        body = {"documents": [{"text": "trout"}]}
        added = requests.post(proxy + "/documents", json=body, cookies=cookies, timeout=PATIENCE)
        assert added.status_code == 201
        wanted = {"decisions": [{"document": 1, "label": "fish", "verdict": "accept"}]}
        made = requests.post(proxy + "/decisions", json=wanted, cookies=cookies, timeout=PATIENCE)
        assert [one["user"] for one in made.json()["decisions"]] == ["ada@example.org"]
    no_secret = {"X-Remote-User": "admin"}
    assert (
        requests.get(server.address + "/me", headers=no_secret, timeout=PATIENCE).status_code == 401
    )
