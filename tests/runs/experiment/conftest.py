"""A small corpus and a finished experiment, shared by the tests of experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.corpora.open import write_docs
from ontodex.runs.experiment.execute import run_experiment
from small_experiment import PLAN, corpus, plan


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
