"""A small corpus and a finished experiment, shared by the tests of experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.corpora.open import write_docs
from ontodex.runs.experiment.execute import run_experiment
from ontodex.types import Corpus, Doc

WORDS = {"fish": "trout river", "oak": "leaf bark", "bread": "oven crust"}
PLAN = """
title = "Small"
note = "Made in a hurry."
[corpora.small]
train = "train.jsonl"
test = "test.jsonl"
[[systems]]
name = "floor"
model = "popularity"
[[systems]]
name = "near"
model = "knn"
[[systems]]
name = "both"
consensus = ["floor", "near"]
[published.small."A & B"]
source = "a paper, Table 1"
"P@1" = 61.5
"""


def corpus(n: int) -> Corpus:
    return Corpus.of(
        Doc(f"{n}-{i}", {"title": f"{words} {i % 5}"}, (), (label, "fish") if i % 4 else (label,))
        for i, (label, words) in enumerate(list(WORDS.items()) * n)
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_docs(corpus(10), folder / "train.jsonl", "jsonl")
    write_docs(corpus(4), folder / "test.jsonl", "jsonl")
    return folder


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    run_experiment(plan(out, PLAN), out, root=root)
    return out


def plan(folder: Path, text: str) -> Path:
    (folder / "plan.toml").write_text(text)
    return folder / "plan.toml"
