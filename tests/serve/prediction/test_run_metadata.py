"""Runs without their models."""

from __future__ import annotations

import shutil

from ontodex.serve.prediction.run_metadata import OntologyIndex, RunMetadata


def test_runs_with_the_same_ontology_share_it_and_its_search(run_folder, tmp_path):
    again = shutil.copytree(run_folder, tmp_path / "again")
    shared: dict[str, OntologyIndex] = {}
    first, second = (RunMetadata.open(folder, shared) for folder in (run_folder, again))
    assert first.labels.ontology is second.labels.ontology
    assert first.index.get_search() is second.index.get_search()
