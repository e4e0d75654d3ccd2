"""Runs without their models."""

from __future__ import annotations

import shutil

import pytest

from ontodex.errors import RunError
from ontodex.runs.recipe import train
from ontodex.serve.prediction.run_metadata import MAX_LABEL, OntologyIndex, RunMetadata
from ontodex.types import Corpus, Doc


def test_runs_with_the_same_ontology_share_it_and_its_search(run_folder, tmp_path):
    again = shutil.copytree(run_folder, tmp_path / "again")
    shared: dict[str, OntologyIndex] = {}
    first, second = (RunMetadata.open(folder, shared) for folder in (run_folder, again))
    assert first.labels.ontology is second.labels.ontology
    assert first.index.get_search() is second.index.get_search()


def test_a_label_that_no_request_can_name_is_refused_before_a_curator_meets_it(tmp_path):
    for name, length in (("at", MAX_LABEL), ("above", MAX_LABEL + 1)):
        docs = [Doc(str(i), {"text": "trout"}, (), ("x" * length,)) for i in range(4)]
        train("popularity", train=Corpus.of(docs), out=tmp_path / name)
    assert RunMetadata.open(tmp_path / "at").labels.ids == ("x" * MAX_LABEL,)
    with pytest.raises(RunError, match="has 2,001 characters, and the service takes at most 2,000"):
        RunMetadata.open(tmp_path / "above")
