"""Reports of runs."""

from __future__ import annotations

import shutil

import pytest

from ontodex.runs.evaluate import evaluate
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.serve.prediction.run_view import RunView
from ontodex.types import Corpus, Doc


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
    evaluate(folder, Corpus.of([Doc("d", {"title": quoting}, (), ("fish",))]), report=True)
    client = start({"measured": RunView("measured", RunMetadata.open(folder))})
    text = client.get(f"/runs/measured/report{theme}").text
    style, _, body = text.partition("</style>")
    assert f"color-scheme: {scheme};" in style
    assert f"@media {is_dark_when} {{" in style
    assert quoting in body


BODY = {"documents": [{"text": "trout"}]}


def test_several_runs_answer_side_by_side(start, served):
    client = start({name: RunView(name, served.metadata) for name in ("first", "second")})
    assert client.post("/suggest", json=BODY).json()["run"] == "first"
    assert client.post("/suggest", json={**BODY, "run": "second"}).json()["run"] == "second"
    assert [run["run"] for run in client.get("/runs").json()["runs"]] == ["first", "second"]


def test_a_sample_text_is_made_of_frequent_concepts(client):
    sample = client.get("/runs/small").json()["sample"]
    assert set(sample["title"].split(" · ")) == {"Fish", "Road safety"}, "one of each root"
    assert "Fish: Cold-blooded, in water." in sample["text"]
    answer = client.post("/suggest", json={"documents": [sample]})
    assert answer.status_code == 200


@pytest.mark.parametrize("damaged", [b"{", b"[" * 5000, b'{"P@1": NaN}', b'"x"', b"\xff"])
def test_damaged_figures_and_a_damaged_report_are_no_error(start, run_folder, tmp_path, damaged):
    """Both are files without a digest, which come with a run that somebody else has made."""
    folder = shutil.copytree(run_folder, tmp_path / "measured")
    (folder / "metrics.json").write_bytes(damaged)
    (folder / "report.html").write_bytes(b"<p>\xff</p>")
    client = start({"measured": RunView("measured", RunMetadata.open(folder))})
    answer = client.get("/runs/measured")
    assert (answer.status_code, answer.json()["metrics"]) == (200, None)
    assert client.get("/runs/measured/report").text == "<p>\ufffd</p>"
