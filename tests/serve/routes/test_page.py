"""The files of the page."""

from __future__ import annotations

import re

import pytest


@pytest.mark.parametrize("name", ["../api.py", "..%2fapi.py", ".hidden", "page.py", "no.html"])
def test_only_files_of_the_page_are_served(client, name):
    assert client.get(f"/page/{name}").status_code == 404


def test_the_page_and_every_file_that_it_names_are_served(client):
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>ontodex</h1>" in page.text
    files = re.findall(r'(?:src|href)="(/page/[^"]+)"', page.text)
    assert "/page/page.js" in files
    for file in files:
        assert client.get(file).status_code == 200, file
