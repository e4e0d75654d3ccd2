"""Latency of single documents."""

from __future__ import annotations

import importlib

import pytest
from levelwise_made_up import ROOT, TINY

from ontodex.ontology.graph import Concept
from ontodex.ontology.graph import build_ontology as ontology_of
from ontodex.types import Corpus, Doc, LabelSpace


@pytest.mark.parametrize("row", ["full", "ordered", "sampling", "attentive-threshold"])
def test_latency_is_measured_with_the_stated_number_of_labels(monkeypatch, row):
    """16 that are merged, in the mean, and 8 of them that are emitted, of labels with random
    weights."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    latency = importlib.import_module("levelwise_latency")
    tops = [f"t{i}" for i in range(30)]
    ontology = ontology_of([*map(Concept, tops), *(Concept(f"b{t}", parents=[t]) for t in tops)])
    corpus = Corpus.of(
        Doc(t, {"text": " ".join(tops[: i + 1])}, (), (t, f"b{t}")) for i, t in enumerate(tops)
    )
    over = {name: value for name, value in TINY.items() if name not in ("merge", "train")}
    given = [f"model.{name}={value}" for name, value in over.items()]
    given += [f"model.pointer.max_labels={latency.EMITTED}"]
    system = latency.make_system(row, latency.settings(row, 1, [], given))
    corpora = {"train": corpus, "dev": corpus}
    latency.fill_untrained(system, corpora, LabelSpace.of(corpus, ontology), corpus)
    rankings = system.predict_levels(corpus)[-1]
    if system.config.merge == "pointer":
        merged = system.merging.make_candidates(rankings, system.thresholds)
    else:
        merged = system.merging.join_predictions(rankings, system.thresholds)
    assert (merged.columns >= 0).sum(axis=1).mean() == pytest.approx(16, abs=0.5)
    if not row.endswith("threshold"):
        assert ((system.decide(corpus).columns >= 0).sum(axis=1) == 8).all()
