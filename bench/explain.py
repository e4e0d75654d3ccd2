"""Measure how much a label's probability falls without the words that `explain` names.

    python bench/explain.py TEST RUN... [--words 5] [--documents 100]

Of each document, for its true labels (two at most): the fall of the label's log-odds without the
words that speak most for it, and without as many at random. A table, a line a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from ontodex.corpora.open import open_corpus
from ontodex.models.interface import Explains
from ontodex.runs.run import Run, load, predict
from ontodex.types import Corpus, Doc
from ontodex.types.answers import Span

LABELS = 2  # of a document
LEAST = 1e-6  # the probability of a label that is not among the answers


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("test", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--words", type=int, default=5)
    parser.add_argument("--documents", type=int, default=100)
    arguments = parser.parse_args()
    docs = list(open_corpus(arguments.test))[: arguments.documents]
    sys.stdout.write("| run | labels | without its words | without as many others | ratio |\n")
    sys.stdout.write("|---|---:|---:|---:|---:|\n")
    for folder in arguments.runs:
        falls = measure(load(folder), docs, arguments.words)
        named, others = falls.mean(axis=0)
        ratio = named / others
        line = f"| {folder.name} | {len(falls)} | {named:.3f} | {others:.3f} | {ratio:.1f} |\n"
        sys.stdout.write(line)


def measure(run: Run, docs: Iterable[Doc], words: int) -> NDArray[np.float64]:
    """(labels, 2): the fall of log-odds without the words that speak for a label, and without
    others."""
    model, rng = run.model, np.random.default_rng(0)
    assert isinstance(model, Explains)
    texts: list[tuple[Doc, Doc, Doc]] = []
    columns: list[int] = []
    for doc in docs:
        known = [c for c in map(run.labels.column.get, doc.labels) if c is not None]
        for column in sorted(c for c in known if c < run.labels.n_seen)[:LABELS]:
            spans = list(model.explain(doc, column))
            if len(spans) > 2 * words:
                best = sorted(spans, key=lambda span: -span.weight)[:words]
                drawn = [spans[i] for i in rng.choice(len(spans), words, replace=False)]
                texts.append((without(doc, []), without(doc, best), without(doc, drawn)))
                columns.append(column)
    whole, named, others = (log_odds(run, some, columns) for some in zip(*texts, strict=True))
    return np.stack([whole - named, whole - others], axis=1)


def without(doc: Doc, spans: Sequence[Span]) -> Doc:
    text = doc.text
    for span in sorted(spans, key=lambda span: -span.start):
        text = text[: span.start] + text[span.end :]
    return Doc("", {"text": text}, doc.keywords)


def log_odds(run: Run, docs: Sequence[Doc], columns: Sequence[int]) -> NDArray[np.float64]:
    """Of one label of each document, by itself."""
    apart = predict(run, Corpus.of(list(docs))).standalone
    found = np.where(apart.columns == np.array(columns)[:, None], apart.probabilities, 0).sum(
        axis=1
    )
    odds: NDArray[np.float64] = logit(found.astype(np.float64).clip(LEAST, 1 - LEAST))
    return odds


if __name__ == "__main__":
    main()
