"""Evaluating a run: metrics, report, unknown labels."""

from __future__ import annotations

import json

import pytest

from floor_run import DOCS, TABLES
from ontodex.errors import DataError
from ontodex.runs.evaluate import evaluate
from ontodex.runs.recipe import train
from ontodex.runs.run import load
from ontodex.types import Corpus, Doc


@pytest.mark.parametrize("threads", ["1", None])
def test_a_report_names_a_limit_of_threads(tmp_path, monkeypatch, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    run = train(config=TABLES, out=tmp_path / "run", train=DOCS)
    evaluate(run, DOCS, report=True)
    report = (run.folder / "report.html").read_text(encoding="utf-8")
    assert (", OMP_NUM_THREADS=1<" in report) == bool(threads)


def test_evaluation_writes_metrics_and_a_report_and_the_run_still_loads(copy):
    metrics = evaluate(copy, DOCS, report=True)
    assert metrics["P@1"] == 1.0
    kept = json.loads((copy / "metrics.json").read_text())
    assert kept["P@1"] == 1.0
    assert "popularity" in (copy / "report.html").read_text()
    assert load(copy).suggest("x")


def test_a_corpus_with_unknown_labels_only_is_refused_and_writes_nothing(folder):
    before = (folder / "metrics.json").exists() and (folder / "metrics.json").read_bytes()
    strange = Corpus.of([Doc("1", {"text": "trout"}, (), ("http://example.org/fish",))])
    with pytest.raises(DataError, match="knows none of the labels") as met:
        evaluate(folder, strange, report=True)
    assert "'fish' is one" in met.value.hint
    assert ((folder / "metrics.json").exists() and (folder / "metrics.json").read_bytes()) == before


def test_training_writes_the_model_card_and_an_evaluation_adds_its_figures(tmp_path):
    run = train(config=TABLES, out=tmp_path / "floor", train=DOCS)
    card = run.folder / "README.md"
    before = card.read_text(encoding="utf-8")
    assert before.startswith('---\nlibrary_name: "ontodex"\n')
    assert "# floor\n" in before
    assert f"trained on {run.about['train']['documents']} documents" in before
    assert "`ontodex evaluate floor test.jsonl` does" in before
    assert "ontodex pull" not in before
    metrics = evaluate(run, DOCS, report=True)
    assert f"| P@1 | {100 * metrics['P@1']:.2f} |" in card.read_text(encoding="utf-8")
    load(run.folder)  # the card may change
    card.write_text("Ours", encoding="utf-8")
    evaluate(run, DOCS, report=True)
    assert card.read_text(encoding="utf-8") == "Ours"
