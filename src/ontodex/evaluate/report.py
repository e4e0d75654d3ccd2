"""report.html: what a curator wants to know about a run, in one file that asks nothing of the
network.

    headline figures - common and rare labels - levels - threshold - probabilities -
    what the system draws of itself - best and worst labels - example documents - every figure

Documents and label names are hostile: all text passes `_e`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluate import plots
from ontodex.evaluate.groups import GroupScores
from ontodex.evaluate.hierarchical import near_misses
from ontodex.evaluate.metrics import Metrics
from ontodex.evaluate.ranking import gold_sizes, hits
from ontodex.evaluate.sets import Counts, count_by_document, count_by_label
from ontodex.files import write_text
from ontodex.types import Corpus, LabelSpace, Ranking

_TEXT_SHOWN = 700  # characters of an example document
_LABELS_SHOWN = 10  # best, and as many worst
_LEAST_GOLD = 5  # a label rarer than this says little about itself
_EXAMPLES = 6
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def write_report(
    path: Path,
    metrics: Metrics,
    *,
    title: str,
    gold: csr_array,
    ranking: Ranking,
    decided: Ranking | None,
    labels: LabelSpace,
    corpus: Corpus,
    ancestors: csr_array | None = None,
    about: Mapping[str, str] | None = None,
    illustrations: Sequence[plots.Illustration] = (),
) -> None:
    """Write the report of `metrics`, made from the same gold, ranking and decided sets; `corpus`
    has the documents in their order. `about` is shown under the title: data, command, date;
    `illustrations` are what the system draws of itself."""
    # Without decided sets the five best answers stand in for them where a set is needed.
    chosen = ranking.cut(5) if decided is None else decided
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
        *_labels(labels, count_by_label(gold, chosen)),
        *_examples(corpus, labels, gold, chosen, ancestors),
        *_everything(metrics),
    ]
    style = files("ontodex.evaluate").joinpath("report.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_e(title)}</title><style>{style}</style></head><body>",
    ]
    write_text(path, "\n".join([*head, *body, "</body></html>"]) + "\n")


def _e(text: object) -> str:
    """Text for HTML: escaped, without characters that no page may hold."""
    return escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def _head(title: str, metrics: Metrics, about: Mapping[str, str]) -> Iterator[str]:
    yield f"<h1>{_e(title)}</h1>"
    counted = f"{metrics.documents:,} documents with {metrics.labels:,} different labels"
    left_out = (
        f"; {metrics.without_gold:,} documents without labels are left out"
        if metrics.without_gold
        else ""
    )
    unknown = (
        f". {metrics.unknown_labels:,} of the labels are outside what the system knows and are "
        "always missed"
        if metrics.unknown_labels
        else ""
    )
    yield f'<p class="quiet">Measured on {counted}{left_out}{unknown}.</p>'
    if about:
        rows = " &middot; ".join(f"{_e(key)}: {_e(value)}" for key, value in about.items())
        yield f'<p class="quiet">{rows}</p>'


def _headline(metrics: Metrics) -> Iterator[str]:
    k = max((int(name[2:]) for name in metrics.values if name.startswith("P@")), default=1)
    sentences = {
        "P@1": "of first suggestions are right",
        f"P@{k}": f"of the first {k} suggestions are right",
        f"R@{k}": f"of a document's labels are among its first {k} suggestions",
        "MiP": "of the labels chosen are right",
        "MiR": "of the true labels are chosen",
        "MiF": "is the balance of the last two (F)",
    }
    yield '<h2>In short</h2><div class="cards">'
    for name, sentence in sentences.items():
        if name not in metrics.values:
            continue
        interval = metrics.intervals.get(name)
        between = f"; {interval.low:.1%} to {interval.high:.1%}" if interval else ""
        figure = f"<strong>{metrics[name]:.1%}</strong>"
        yield f'<div class="card">{figure}{sentence} <small>{name}{between}</small></div>'
    yield "</div>"
    if metrics.intervals:
        yield (
            '<p class="quiet">The ranges are 95% bootstrap intervals over documents: other '
            "documents of the same kind would give figures in about these ranges.</p>"
        )


def _groups(title: str, sentence: str, head: str, groups: Sequence[GroupScores]) -> Iterator[str]:
    if not groups:
        return
    metrics = [n for n in ("P@1", "P@3", "P@5", "R@5", "MiF") if n in groups[0].values]
    # P@3 and P@5 are not drawn: they cannot be high where documents have one or two such labels.
    drawn = [name for name in metrics if name not in ("P@3", "P@5")]
    names = [group.name.removeprefix("level ") for group in groups]
    series = {metric: [group.values[metric] for group in groups] for metric in drawn}
    about = f"{title}: {', '.join(drawn)} by {head}"
    plot = plots.bars(names, series, about=about, x_name=head)
    yield f"<h2>{title}</h2><p>{sentence}</p><figure>{plot}</figure>"
    rows = [
        [name, f"{g.labels:,}", f"{g.documents:,}", *(f"{g.values[m]:.1%}" for m in metrics)]
        for name, g in zip(names, groups, strict=True)
    ]
    yield from _table([head, "labels", "documents", *metrics], rows)


def _threshold(metrics: Metrics) -> Iterator[str]:
    curve = metrics.curve
    if curve is None:
        return
    best = int(np.argmax(curve.f))
    some = curve.predicted > 0  # precision of nothing is not worth a line
    series = {
        "right (precision)": curve.precision[some],
        "found (recall)": curve.recall[some],
        "F": curve.f[some],
    }
    plot = plots.lines(
        curve.threshold[some],
        series,
        about="Precision, recall and F by threshold",
        x_name="labels are chosen from this probability on",
        mark=float(curve.threshold[best]),
    )
    yield (
        "<h2>How sure should it be?</h2><p>What happens if every label of at least some "
        f"probability is chosen. On these documents F is highest at {curve.threshold[best]:.2f}: "
        f"{curve.precision[best]:.1%} of the labels chosen are right and {curve.recall[best]:.1%} "
        "of the true ones are found. Thresholds are set on other documents than these; this plot "
        f"only shows what they trade.</p><figure>{plot}</figure>"
    )


def _probabilities(metrics: Metrics) -> Iterator[str]:
    bins = metrics.reliability
    if bins is None:
        return
    plot = plots.reliability_plot(bins, about="Share true by probability claimed")
    yield (
        "<h2>Do the probabilities mean what they say?</h2><p>Of all labels given 0.7, seven in "
        "ten should be right. On average over the best answers of each document, probability and "
        f"truth are {100 * metrics['ECE']:.1f} percentage points apart.</p><figure>{plot}</figure>"
    )


def _illustration(shown: plots.Illustration) -> Iterator[str]:
    yield f"<h2>{_e(shown.title)}</h2><p>{_e(shown.sentence)}</p>"
    for panel in shown.panels:
        plot = plots.lines(
            panel.x,
            panel.series,
            about=f"{shown.title}, {panel.name}",
            x_name=shown.x_name,
            most=max(panel.x, default=1.0),
        )
        yield f"<h3>{_e(panel.name)}</h3><figure>{plot}</figure>"


# ----------------------------------------------------------------------------------------- labels


def _labels(labels: LabelSpace, counts: Counts) -> Iterator[str]:
    f = counts.f()[: len(labels)]
    often = np.flatnonzero(counts.gold[: len(labels)] >= _LEAST_GOLD)
    if not len(often):
        return
    order = often[np.lexsort((often, -counts.gold[often], -f[often]))]
    shown = min(_LABELS_SHOWN, (len(order) + 1) // 2)
    yield f"<h2>Best and worst labels</h2><p>Among the {len(order):,} labels that at least "
    yield f"{_LEAST_GOLD} of these documents have.</p>"
    head = ["label", "in training", "true", "chosen", "right", "F"]
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
        yield from _table(head, rows, first_is_html=True)


def _label(labels: LabelSpace, column: int, *, sure: str = "") -> str:
    """Name, probability if there is one, and place in the ontology, as HTML."""
    if column >= len(labels):
        return '<span class="quiet">a label outside what the system knows</span>'
    parts = [f'<span class="name">{_e(labels.name(column))}</span>']
    if sure:
        parts.append(f"<small>{sure}</small>")
    if above := _place(labels, column):
        parts.append(f'<span class="place name">{_e(above)}</span>')
    return " ".join(parts)


def _place(labels: LabelSpace, column: int) -> str:
    """The names from the root down to just above the label."""
    ontology, label = labels.ontology, labels.ids[column]
    if ontology is None or label not in ontology:
        return ""
    return " › ".join(ontology.name(step) for step in ontology.path(label)[:-1])  # noqa: RUF001


# --------------------------------------------------------------------------------------- examples


def _examples(
    corpus: Corpus,
    labels: LabelSpace,
    gold: csr_array,
    chosen: Ranking,
    ancestors: csr_array | None,
) -> Iterator[str]:
    rows = _example_rows(gold, chosen)
    gold, chosen = gold[rows], chosen.take(rows)
    right = hits(gold, chosen)
    near = np.zeros_like(right) if ancestors is None else near_misses(gold, chosen, ancestors)
    yield "<h2>Examples</h2><p>Documents from the best to the worst served. <em>Near</em> is a "
    yield "wrong label in the right branch: above or below a true one.</p>"
    for i, row in enumerate(rows):
        doc = corpus[int(row)]
        text = doc.text[:_TEXT_SHOWN] + ("…" if len(doc.text) > _TEXT_SHOWN else "")
        yield f'<article><h3>{_e(doc.id)}</h3><p class="text">{_e(text)}</p><ul class="labels">'
        said = chosen.columns[i]
        for rank in np.flatnonzero(said >= 0):
            kind = "hit" if right[i, rank] else "near" if near[i, rank] else "wrong"
            sure = f"{chosen.probabilities[i, rank]:.0%}"
            yield _answer(kind, _label(labels, int(said[rank]), sure=sure))
        true = gold.indices[gold.indptr[i] : gold.indptr[i + 1]]
        for column in np.setdiff1d(true, said):
            yield _answer("missed", _label(labels, int(column)))
        yield "</ul></article>"


def _answer(kind: str, html: str) -> str:
    return f'<li class="{kind}"><span class="kind">{kind}</span>{html}</li>'


def _example_rows(gold: csr_array, chosen: Ranking) -> NDArray[np.int64]:
    """Documents with gold, evenly spaced from the highest F to the lowest."""
    counted = np.flatnonzero(gold_sizes(gold))
    f = count_by_document(gold, chosen).f()[counted]
    order = counted[np.argsort(-f, kind="stable")]
    places = np.linspace(0, len(order) - 1, min(_EXAMPLES, len(order))).round().astype(int)
    return order[places]


# ----------------------------------------------------------------------------------------- tables


def _everything(metrics: Metrics) -> Iterator[str]:
    yield "<details><summary>Every figure</summary>"
    rows = []
    for name, value in metrics.values.items():
        interval = metrics.intervals.get(name)
        between = f"{interval.low:.4f} to {interval.high:.4f}" if interval else ""
        rows.append([name, f"{value:.4f}", between])
    yield from _table(["metric", "value", "95% interval"], rows)
    if metrics.by_occurrence:
        yield "<p>AUC and AUPR by occurrence in these documents, from rankings with the rest tied "
        yield "at 0; compare only with figures made the same way.</p>"
        head = ["occurrences", "labels", "share of all", "AUC", "AUPR"]
        groups = metrics.by_occurrence
        rows = [
            [f"{g.least:,} to {g.most:,}", f"{g.labels:,}", f"{g.share:.1%}", f"{g.auc:.4f}",
             f"{g.aupr:.4f}"]
            for g in groups
        ]  # fmt: skip
        yield from _table(head, rows)
    yield "</details>"


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, first_is_html: bool = False
) -> Iterator[str]:
    """A table whose first column is text and the others numbers."""
    yield '<div class="wide"><table><thead><tr>'
    yield f"<th>{_e(head[0])}</th>"
    yield "".join(f'<th class="number">{_e(cell)}</th>' for cell in head[1:])
    yield "</tr></thead><tbody>"
    for first, *numbers in rows:
        cells = "".join(f'<td class="number">{_e(cell)}</td>' for cell in numbers)
        yield f"<tr><td>{first if first_is_html else _e(first)}</td>{cells}</tr>"
    yield "</tbody></table></div>"


__all__ = ["write_report"]
