"""Behind TAB: run folders, concepts and systems, as bash asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEADER = "label\tfrequency in 9 documents\tname\n"
PROGRAM = "import sys; sys.argv[0] = 'ontodex'; from ontodex.cli import main; main()"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("runs/first", "runs/forest", "data"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "notes.txt").touch()
    for name in ("first", "forest"):
        (tmp_path / "runs" / name / "manifest.json").write_text("{}")
    rows = "C1\t5\tFish\nC2\t3\tFish passes\nC3\t1\tOak\n"
    (tmp_path / "runs" / "first" / "labels.tsv").write_text(HEADER + rows)
    return tmp_path


def complete(place: Path, *words: str, shell: str = "bash") -> list[str]:
    """Return what the shell offers for the last word."""
    line = " ".join(["ontodex", *words])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=place,
        env={
            **os.environ,
            "_ONTODEX_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words)),
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.removesuffix("\n").split("\n")


def test_folders_lead_to_runs(place):
    assert complete(place, "suggest", "r") == ["runs/"]
    assert complete(place, "suggest", "runs/f") == ["runs/first", "runs/forest"]
    assert complete(place, "compare", "runs/first", "runs/fo") == ["runs/forest"]
    assert complete(place, "serve", "runs/fo") == ["runs/forest"]


def test_concepts_of_the_run_are_completed_by_name_or_id(place):
    words = ["explain", "runs/first", "text", "--label"]
    assert complete(place, *words, "fi") == ["fish", "fish\\ passes"]
    assert complete(place, *words, "Fish\\ p", shell="fish") == ["Fish passes\tFish passes"]
    assert complete(place, *words, "C3") == ["C3"]
    assert complete(place, *words, "zebra") == [""]
    assert complete(place, "explain", "runs/away", "text", "--label", "fi") == [""]


def test_systems_are_completed(place):
    assert complete(place, "train", "--model", "xml") == ["xmlrnn", "xmlcnn"]
