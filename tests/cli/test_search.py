"""Commands that choose a system and its settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.models import MODELS
from ontodex.runs.run import load


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    pairs = [("trout in the river", "fish"), ("leaves of the oak", "tree")]
    records = [
        {"id": str(i), "text": f"{pairs[i % 2][0]} {i}", "labels": [pairs[i % 2][1]]}
        for i in range(40)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def invoke(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_auto_and_tune_write_runs(corpus, tmp_path):
    out = tmp_path / "auto"
    printed = invoke("auto", "--train", corpus, "--out", out, "--budget", "1h", "--system", "knn")
    assert f"what was tried: {out / 'auto.html'}" in printed
    run = load(out)
    assert run.settings.name == "auto"
    assert run.settings.model.systems == ("knn",)
    invoke("train", "--model", "knn", "--train", corpus, "--out", tmp_path / "knn")
    tuned = tmp_path / "tuned"
    printed = invoke("tune", tmp_path / "knn", "--train", corpus, "--out", tuned, "--budget", "1h")
    assert f"what was tried: {tuned / 'tune.html'}" in printed


def test_systems_are_listed_with_advice():
    rows = json.loads(invoke("systems", "--json"))
    assert {row["name"] for row in rows} == set(MODELS)
    assert "linear" in invoke("systems")


def test_settings_are_listed_with_defaults_and_meanings():
    rows = json.loads(invoke("settings", "linear", "--json"))
    cost = next(row for row in rows if row["name"] == "cost")
    assert (cost["default"], cost["choices"]) == (1.0, [])
    assert "liblinear" in cost["meaning"]
    assert "cost = 1.0" in invoke("settings", "linear")
