"""Evaluate a run on a labelled corpus: all metrics and, if asked for, a report in its folder."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.open import Documents
from ontodex.errors import DataError
from ontodex.evaluation.label_table import write_label_table
from ontodex.evaluation.metrics import Metrics
from ontodex.evaluation.metrics import evaluate as compute_metrics
from ontodex.evaluation.report import write_report
from ontodex.evaluation.sets import count_by_label
from ontodex.io.counts import format_count
from ontodex.io.files import write_text
from ontodex.models.interface import Describes
from ontodex.ontology.levels import compute_label_ancestors, compute_label_levels
from ontodex.runs.documents import open_documents
from ontodex.runs.languages import warn_foreign
from ontodex.runs.model_card import save_model_card
from ontodex.runs.run import Run, load, predict
from ontodex.types import Corpus
from ontodex.types.answers import PredictionResult


def evaluate(
    run: Run | str | Path,
    corpus: Documents,
    *,
    report: bool = False,
    device: str = "auto",
    mapping: FieldMapping = NO_MAPPING,
) -> Metrics:
    """Return all metrics of a run on a labelled corpus.

    With `report`, write metrics.json, label_metrics.tsv and report.html into the run folder.
    `device` is used where `run` is a folder. `mapping` names columns of a table, which by default
    are those of the training documents.

    >>> metrics = ontodex.evaluate("runs/floor", "test.jsonl")
    >>> round(metrics["P@1"], 3)
    0.667
    """
    run = run if isinstance(run, Run) else load(run, device=device)
    source = Path(corpus) if isinstance(corpus, str | Path) else None
    opened = open_documents(corpus, run.labels, run.about, mapping)
    gold = run.labels.gold(opened)
    if gold.nnz and gold.indices.min() >= len(run.labels):
        raise DataError(
            "this run knows none of the labels of these documents, so all would be missed",
            path=source,
            hint="evaluate on documents with labels of its vocabulary, as ids or names "
            f"({run.labels.ids[0]!r} is one id)",
        )
    warn_foreign(opened, run.languages)
    started = time.monotonic()
    result = predict(run, opened)
    seconds = time.monotonic() - started
    ancestors = compute_label_ancestors(run.labels) if run.labels.ontology is not None else None
    metrics = compute_metrics(
        gold,
        result.ranking,
        result.label_sets,
        run.labels,
        levels=find_levels(run),
        ancestors=ancestors,
    )
    if report:
        _write(run, opened, gold, result, metrics, ancestors, seconds)
    return metrics


def find_levels(run: Run) -> NDArray[np.int32] | None:
    """Return the ontology level of each column, as the system uses it where it works by levels;
    None without an ontology."""
    if run.labels.ontology is None:
        return None
    if isinstance(run.model, Describes):
        return run.model.label_levels(run.labels)
    return compute_label_levels(run.labels)


def _write(
    run: Run,
    corpus: Corpus,
    gold: csr_array,
    result: PredictionResult,
    metrics: Metrics,
    ancestors: csr_array | None,
    seconds: float,
) -> None:
    record = {
        **metrics.to_dict(),
        "corpus": {"documents": len(corpus), "key": corpus.key},
        "rank_seconds": round(seconds, 6),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    write_text(run.folder / "metrics.json", text)
    save_model_card(run.folder, run.about)
    counts = count_by_label(gold, result.label_sets)
    write_label_table(run.folder / "label_metrics.tsv", run.labels, counts)
    write_report(
        run.folder / "report.html",
        metrics,
        title=f"{run.settings.name} on {format_count(len(corpus), 'document')}",
        gold=gold,
        ranking=result.ranking,
        label_sets=result.label_sets,
        labels=run.labels,
        corpus=corpus,
        ancestors=ancestors,
        about={
            "trained on": format_count(run.about["train"]["documents"], "document"),
            "in": f"{run.about['train_seconds']:,.0f} s on {run.about['hardware']}",
        },
        illustrations=run.model.illustrations() if isinstance(run.model, Describes) else (),
    )
