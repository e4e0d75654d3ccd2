"""Runs for programs without ontodex."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from ontodex.errors import ConfigError, RunError
from ontodex.runs.export import export
from ontodex.runs.recipe import train
from ontodex.types import Corpus, Doc

onnxruntime = pytest.importorskip("onnxruntime")

SENTENCES = {"fish": "trout swim in the stream", "oak": "old oaks stand in the forest"}
DOCS = Corpus.of(
    [
        Doc(f"{label}{i}", {"title": f"{text} {i}"}, (), (label,))
        for i in range(15)
        for label, text in SENTENCES.items()
    ]
)


def test_a_program_needs_only_the_exported_files(tmp_path):
    run = train("linear", train=DOCS, out=tmp_path / "run")
    files = export(run, tmp_path / "exported")
    assert [path.name for path in files] == ["model.onnx", "labels.tsv", "tokens.json"]
    about = json.loads(files[2].read_text())
    example = about["example"]
    words = re.findall(about["pattern"], example["text"].lower())
    assert example["tokens"] == [word for word in words if word in example["tokens"]]
    labels = [line.split("\t")[0] for line in files[1].read_text().splitlines()[1:]]
    session = onnxruntime.InferenceSession(files[0])
    tokens = re.findall(about["pattern"], "Trout in a stream".lower())
    (found,) = session.run(None, {"tokens": np.array(tokens, dtype=object)})
    best = labels[int(found.argmax())]
    (expected,) = run.suggest("Trout in a stream", limit=1)
    assert (best, found.max()) == (expected.label, pytest.approx(expected.probability, abs=1e-6))


def test_other_systems_and_formats_are_refused_with_a_reason(tmp_path):
    run = train("popularity", train=DOCS, out=tmp_path / "run")
    with pytest.raises(RunError, match="'popularity' cannot be exported") as refused:
        export(run, tmp_path / "exported")
    assert "linear" in refused.value.hint
    with pytest.raises(ConfigError, match="can be exported to onnx"):
        export(run, tmp_path / "exported", to="pmml")
    assert not (tmp_path / "exported").exists()
