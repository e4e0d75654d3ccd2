"""What the service says about itself: the description, the probes, figures, reports."""

from __future__ import annotations

import re
import shutil
import time

import pytest

from ontodex.run import load
from ontodex.serve.served import Card, Known, Served
from ontodex.types import Corpus, Doc


def test_head_is_get_without_the_body(client):
    for path in ("/", "/healthz", "/readyz", "/runs"):
        head, whole = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]


def test_the_moment_of_the_start_keeps_its_seconds(client):
    started = re.findall(r"^ontodex_start_time_seconds (\S+)$", client.get("/metrics").text, re.M)
    assert 0 <= time.time() - float(started[0]) < 60


def test_the_description_says_what_every_answer_holds(client):
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                where, content = f"{method} {path} {status}", answer.get("content", {})
                assert content or status == "204", where
                if not status.startswith("2"):
                    assert list(content) == ["application/problem+json"], where
                for kind, value in content.items():
                    is_named = "$ref" in value["schema"] or "items" in value["schema"]
                    assert is_named or kind != "application/json", where


@pytest.mark.parametrize(
    ("theme", "scheme", "is_dark_when"),
    [
        ("", "light dark", "(prefers-color-scheme: dark)"),
        ("?theme=light", "light", "not all"),
        ("?theme=dark", "dark", "all"),
    ],
)
def test_a_report_is_light_or_dark_as_asked(
    start, run_folder, tmp_path, theme, scheme, is_dark_when
):
    folder = shutil.copytree(run_folder, tmp_path / "measured")
    quoting = "color-scheme: light dark @media (prefers-color-scheme: dark)"
    load(folder).evaluate(Corpus.of([Doc("d", {"title": quoting}, (), ("fish",))]), report=True)
    client = start({"measured": Served("measured", Card.open(folder))})
    text = client.get(f"/runs/measured/report{theme}").text
    style, _, body = text.partition("</style>")
    assert f"color-scheme: {scheme};" in style
    assert f"@media {is_dark_when} {{" in style
    assert quoting in body


def test_runs_with_the_same_ontology_share_it_and_its_search(run_folder, tmp_path):
    again = shutil.copytree(run_folder, tmp_path / "again")
    shared: dict[str, Known] = {}
    first, second = (Card.open(folder, shared) for folder in (run_folder, again))
    assert first.labels.ontology is second.labels.ontology
    assert first.known.search() is second.known.search()
