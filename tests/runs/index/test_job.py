"""Index jobs: every document once, settings checked first."""

from __future__ import annotations

import pytest

from index_jobs import DOCS, lines, write_input
from ontodex.errors import ConfigError, DataError
from ontodex.runs.index.job import IndexResult, index_documents
from ontodex.types import Corpus


def test_every_document_is_in_the_table_once_in_order_with_its_label_set(run, tmp_path):
    source = write_input(tmp_path / "in.jsonl", DOCS)
    out = tmp_path / "out.jsonl"
    assert index_documents(run.folder, source, out, block=10, workers=2) == IndexResult(24, 0)
    decided = run.decide(Corpus.of(DOCS))
    for number, (doc, row) in enumerate(zip(DOCS, lines(out), strict=True)):
        columns = [c for c in decided.columns[number].tolist() if c >= 0]
        assert row["id"] == doc.id
        assert row["labels"] == [run.labels.ids[column] for column in columns]
        assert row["names"] == [run.labels.name(column) for column in columns]
        shares = decided.probabilities[number][: len(columns)].tolist()
        assert row["probabilities"] == pytest.approx(shares, abs=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {
        "in.jsonl", "out.jsonl", "out.jsonl.job.json"
    }  # fmt: skip


def test_impossible_settings_are_refused_before_anything_is_read(run, tmp_path):
    missing = tmp_path / "missing.jsonl"
    with pytest.raises(ConfigError, match="limit must be at least 1"):
        index_documents(run.folder, missing, tmp_path / "out.csv", limit=0)
    with pytest.raises(ConfigError, match="which table"):
        index_documents(run.folder, missing, tmp_path / "out.svm")
    with pytest.raises(DataError, match="missing"):
        index_documents(run.folder, missing, tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []
