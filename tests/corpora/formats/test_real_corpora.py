"""Published counts of real corpora."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.corpora.detect import detect_format
from ontodex.corpora.open import open_corpus, read_docs

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "n_docs", "n_features", "n_labels"),
    [
        ("bibtex/bibtex_train.txt.gz", 4880, 1836, 159),
        ("delicious/delicious_test.txt.gz", 3185, 500, 983),
    ],
)
def test_feature_corpora_have_their_published_sizes(
    name: str,
    n_docs: int,
    n_features: int,
    n_labels: int,
    real_data: Path,
) -> None:
    corpus = open_corpus(real_data / name)
    assert (len(corpus), corpus.kind, corpus.n_features) == (n_docs, "sparse", n_features)
    labels = {label for labels in corpus.labels() for label in labels}
    assert len(labels) <= n_labels
    assert all(label.startswith("TAG_") for label in labels)  # from labels.txt.gz beside it


def test_eurlex57k_has_its_published_sizes(real_data: Path) -> None:
    counts, labels = {}, set()
    for part in ("train", "dev", "test"):
        path = real_data / "eurlex57k" / f"{part}.jsonl.xz"
        assert detect_format(path) == "eurlex57k"
        counts[part] = 0
        for doc in read_docs(path):
            counts[part] += 1
            labels.update(doc.labels)
            assert list(doc.fields) == ["title", "header", "recitals", "main_body"]
    assert counts == {"train": 45_000, "dev": 6_000, "test": 6_000}
    assert len(labels) == 4271
