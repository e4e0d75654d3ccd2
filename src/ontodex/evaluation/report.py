"""report.html: the metrics of a run for curators, in one file without network requests.

    headline metrics - common and rare labels - levels - threshold - probabilities -
    the system's own illustrations - best and worst labels - example documents - all metrics

Documents and label names are untrusted: all text passes `escape_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluation import plots
from ontodex.evaluation.groups import GroupScores
from ontodex.evaluation.hierarchical import find_near_misses
from ontodex.evaluation.metrics import Metrics
from ontodex.evaluation.page import escape_text, make_html_page, make_table
from ontodex.evaluation.ranking import count_gold_labels, find_hits
from ontodex.evaluation.sets import Counts, count_by_document, count_by_label
from ontodex.io.counts import format_count
from ontodex.io.files import write_text
from ontodex.types import Corpus, LabelSpace, Ranking
from ontodex.types.answers import Illustration

_TEXT_SHOWN = 700  # characters of an example document
_LABELS_SHOWN = 10  # best, and as many worst
_LEAST_GOLD = 5  # the metrics of a rarer label are not reliable
_EXAMPLES = 6


def write_report(
    path: Path,
    metrics: Metrics,
    *,
    title: str,
    gold: csr_array,
    ranking: Ranking,
    label_sets: Ranking | None,
    labels: LabelSpace,
    corpus: Corpus,
    ancestors: csr_array | None = None,
    about: Mapping[str, str] | None = None,
    illustrations: Sequence[Illustration] = (),
) -> None:
    """Write the report of `metrics`, computed from the same gold, ranking and label sets.

    `corpus` has the documents in their order. `about` is shown under the title: data, command,
    date. `illustrations` are the system's own plots.
    """
    # Without label sets the five best labels replace them.
    shown_sets = ranking.cut(5) if label_sets is None else label_sets
    body = [
        *_head(title, metrics, about or {}),
        *_headline(metrics),
        *_groups(
            "Common and rare labels",
            "Labels by how many training documents had them. A group is measured as if its labels "
            "were the only ones.",
            "training documents",
            metrics.by_frequency,
        ),
        *_groups(
            "General and special labels",
            "Labels by their level in the ontology, 1 being the most general.",
            "level",
            metrics.by_level,
        ),
        *_threshold(metrics),
        *_probabilities(metrics),
        *(line for one in illustrations for line in _illustration(one)),
        *_labels(labels, count_by_label(gold, shown_sets)),
        *_examples(corpus, labels, gold, shown_sets, ancestors),
        *_all_metrics(metrics),
    ]
    write_text(path, make_html_page(title, body))


def _head(title: str, metrics: Metrics, about: Mapping[str, str]) -> Iterator[str]:
    """Write the title, the size of the corpus and the facts about the run."""
    yield f"<h1>{escape_text(title)}</h1>"
    counted = (
        f"{format_count(metrics.documents, 'document')} with "
        f"{format_count(metrics.labels, 'different label')}"
    )
    left_out = (
        f"; left out: {format_count(metrics.without_gold, 'document')} without labels"
        if metrics.without_gold
        else ""
    )
    unknown = (
        f". {metrics.unknown_labels:,} of the labels are unknown to the system and are "
        "always missed"
        if metrics.unknown_labels
        else ""
    )
    yield f'<p class="quiet">Measured on {counted}{left_out}{unknown}.</p>'
    if about:
        rows = " &middot; ".join(
            f"{escape_text(key)}: {escape_text(value)}" for key, value in about.items()
        )
        yield f'<p class="quiet">{rows}</p>'


def _headline(metrics: Metrics) -> Iterator[str]:
    """Write the most important metrics as sentences."""
    k = max((int(name[2:]) for name in metrics.values if name.startswith("P@")), default=1)
    sentences = {
        "P@1": "of first suggestions are correct",
        f"P@{k}": f"of the first {k} suggestions are correct",
        f"R@{k}": f"of a document's labels are among its first {k} suggestions",
        "MiP": "of the predicted labels are correct",
        "MiR": "of the true labels are predicted",
        "MiF": "is the harmonic mean of the last two (F)",
    }
    yield '<h2>In short</h2><div class="cards">'
    for name, sentence in sentences.items():
        if name not in metrics.values:
            continue
        interval = metrics.intervals.get(name)
        between = f"; {interval.low:.1%} to {interval.high:.1%}" if interval else ""
        ceiling = metrics.ceilings.get(name, 1.0)
        between += f"; at most {ceiling:.1%}, as some have fewer labels" if ceiling < 1 else ""
        value = f"<strong>{metrics[name]:.1%}</strong>"
        yield f'<div class="card">{value}{sentence} <small>{name}{between}</small></div>'
    yield "</div>"
    if metrics.intervals:
        yield (
            '<p class="quiet">The ranges are 95% bootstrap intervals over documents: other '
            "documents of the same kind would give values in about these ranges.</p>"
        )


def _groups(title: str, sentence: str, head: str, groups: Sequence[GroupScores]) -> Iterator[str]:
    """Write a plot and a table of the metrics of groups of labels."""
    if not groups:
        return
    metrics = [n for n in ("P@1", "P@3", "P@5", "R@5", "MiF") if n in groups[0].values]
    # P@3 and P@5 are not drawn: they cannot be high where documents have one or two such labels.
    drawn = [name for name in metrics if name not in ("P@3", "P@5")]
    names = [group.name.removeprefix("level ") for group in groups]
    series = {metric: [group.values[metric] for group in groups] for metric in drawn}
    about = f"{title}: {', '.join(drawn)} by {head}"
    plot = plots.draw_bars(names, series, about=about, x_name=head)
    yield f"<h2>{title}</h2><p>{sentence}</p><figure>{plot}</figure>"
    rows = [
        [name, f"{g.labels:,}", f"{g.documents:,}", *(f"{g.values[m]:.1%}" for m in metrics)]
        for name, g in zip(names, groups, strict=True)
    ]
    yield from make_table([head, "labels", "documents", *metrics], rows)


def _threshold(metrics: Metrics) -> Iterator[str]:
    """Plot precision, recall and F by threshold."""
    curve = metrics.curve
    if curve is None:
        return
    best = int(np.argmax(curve.f))
    some = curve.predicted > 0  # precision without predictions is not defined
    series = {
        "correct (precision)": curve.precision[some],
        "found (recall)": curve.recall[some],
        "F": curve.f[some],
    }
    plot = plots.draw_lines(
        curve.threshold[some],
        series,
        about="Precision, recall and F by threshold",
        x_name="least probability of a predicted label",
        mark=float(curve.threshold[best]),
    )
    yield (
        "<h2>Precision and recall by threshold</h2><p>The plot shows the result of predicting "
        "every label above a common threshold. On these documents F is highest at "
        f"{curve.threshold[best]:.2f}: {curve.precision[best]:.1%} of the predicted labels are "
        f"correct and {curve.recall[best]:.1%} of the true ones are found. The thresholds of the "
        f"system were tuned on other documents than these.</p><figure>{plot}</figure>"
    )


def _probabilities(metrics: Metrics) -> Iterator[str]:
    """Plot the reliability of the probabilities."""
    bins = metrics.reliability
    if bins is None:
        return
    plot = plots.draw_reliability(bins, about="Share of true labels by predicted probability")
    yield (
        "<h2>Reliability of the probabilities</h2><p>Of all labels with probability 0.7, seven in "
        "ten should be correct. On average over the best labels of each document, probability and "
        f"truth differ by {100 * metrics['ECE']:.1f} percentage points.</p><figure>{plot}</figure>"
    )


def _illustration(shown: Illustration) -> Iterator[str]:
    """Write one of the system's own plots."""
    yield f"<h2>{escape_text(shown.title)}</h2><p>{escape_text(shown.sentence)}</p>"
    for panel in shown.panels:
        plot = plots.draw_lines(
            panel.x,
            panel.series,
            about=f"{shown.title}, {panel.name}",
            x_name=shown.x_name,
            most=max(panel.x, default=1.0),
        )
        yield f"<h3>{escape_text(panel.name)}</h3><figure>{plot}</figure>"


def _labels(labels: LabelSpace, counts: Counts) -> Iterator[str]:
    """Write tables of the labels with the highest and the lowest F."""
    f = counts.f()[: len(labels)]
    often = np.flatnonzero(counts.gold[: len(labels)] >= _LEAST_GOLD)
    if not len(often):
        return
    order = often[np.lexsort((often, -counts.gold[often], -f[often]))]
    shown = min(_LABELS_SHOWN, (len(order) + 1) // 2)
    yield f"<h2>Best and worst labels</h2><p>Among {len(order):,} that at least "
    yield f"{_LEAST_GOLD} of these documents have.</p>"
    head = ["label", "in training", "true", "predicted", "correct", "F"]
    for title, columns in (("Best", order[:shown]), ("Worst", order[shown:][::-1][:shown])):
        rows = [
            [
                _label(labels, int(column)),
                f"{labels.frequency[column]:,}",
                f"{counts.gold[column]:,}",
                f"{counts.predicted[column]:,}",
                f"{counts.hit[column]:,}",
                f"{f[column]:.1%}",
            ]
            for column in columns
        ]
        yield f"<h3>{title}</h3>"
        yield from make_table(head, rows, first_is_html=True)


def _label(labels: LabelSpace, column: int, *, probability: str = "") -> str:
    """Return the name, the probability if there is one, and the place in the ontology, as HTML."""
    if column >= len(labels):
        return '<span class="quiet">a label unknown to the system</span>'
    parts = [f'<span class="name">{escape_text(labels.name(column))}</span>']
    if probability:
        parts.append(f"<small>{probability}</small>")
    if above := _place(labels, column):
        parts.append(f'<span class="place name">{escape_text(above)}</span>')
    return " ".join(parts)


def _place(labels: LabelSpace, column: int) -> str:
    """Return the names from the root down to just above the label."""
    ontology, label = labels.ontology, labels.ids[column]
    if ontology is None or label not in ontology:
        return ""
    return " › ".join(ontology.name(step) for step in ontology.path(label)[:-1])  # noqa: RUF001


def _examples(
    corpus: Corpus,
    labels: LabelSpace,
    gold: csr_array,
    label_sets: Ranking,
    ancestors: csr_array | None,
) -> Iterator[str]:
    """Write a few documents with their predicted and true labels."""
    rows = _choose_examples(gold, label_sets)
    gold, label_sets = gold[rows], label_sets.take(rows)
    is_hit = find_hits(gold, label_sets)
    is_near = np.zeros_like(is_hit)
    if ancestors is not None:
        is_near = find_near_misses(gold, label_sets, ancestors)
    yield "<h2>Examples</h2><p>Documents from the highest F to the lowest. <em>Near</em> is a "
    yield "wrong label that is an ancestor or a descendant of a true one.</p>"
    for i, row in enumerate(rows):
        doc = corpus[int(row)]
        text = doc.text[:_TEXT_SHOWN] + ("…" if len(doc.text) > _TEXT_SHOWN else "")
        yield f'<article><h3>{escape_text(doc.id)}</h3><p class="text">{escape_text(text)}</p>'
        yield '<ul class="labels">'
        predicted = label_sets.columns[i]
        for rank in np.flatnonzero(predicted >= 0):
            kind = "hit" if is_hit[i, rank] else "near" if is_near[i, rank] else "wrong"
            probability = f"{label_sets.probabilities[i, rank]:.0%}"
            html = _label(labels, int(predicted[rank]), probability=probability)
            yield _list_item(kind, html)
        true = gold.indices[gold.indptr[i] : gold.indptr[i + 1]]
        for column in np.setdiff1d(true, predicted):
            yield _list_item("missed", _label(labels, int(column)))
        yield "</ul></article>"


def _list_item(kind: str, html: str) -> str:
    """Return one label of an example: a hit, a near miss, wrong or missed."""
    return f'<li class="{kind}"><span class="kind">{kind}</span>{html}</li>'


def _choose_examples(gold: csr_array, label_sets: Ranking) -> NDArray[np.int64]:
    """Return documents with gold, evenly spaced from the highest F to the lowest."""
    with_gold = np.flatnonzero(count_gold_labels(gold))
    f = count_by_document(gold, label_sets).f()[with_gold]
    order = with_gold[np.argsort(-f, kind="stable")]
    places = np.linspace(0, len(order) - 1, min(_EXAMPLES, len(order))).round().astype(int)
    return order[places]


def _all_metrics(metrics: Metrics) -> Iterator[str]:
    """Write a folded table of all metrics."""
    yield "<details><summary>All metrics</summary>"
    rows = []
    for name, value in metrics.values.items():
        interval = metrics.intervals.get(name)
        between = f"{interval.low:.4f} to {interval.high:.4f}" if interval else ""
        rows.append([name, f"{value:.4f}", between])
    yield from make_table(["metric", "value", "95% interval"], rows)
    if metrics.by_occurrence:
        yield "<p>AUC and AUPR by occurrence in these documents. Labels outside a ranking are tied "
        yield "at 0: compare only with values made the same way.</p>"
        head = ["occurrences", "labels", "share of all", "AUC", "AUPR"]
        groups = metrics.by_occurrence
        rows = [
            [f"{g.least:,} to {g.most:,}", f"{g.labels:,}", f"{g.share:.1%}", f"{g.auc:.4f}",
             f"{g.aupr:.4f}"]
            for g in groups
        ]  # fmt: skip
        yield from make_table(head, rows)
    yield "</details>"
