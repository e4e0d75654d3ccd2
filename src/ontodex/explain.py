"""An explanation as people see it: in colour in the terminal, marked in a file, or as a page.

Texts, labels and names may be hostile: everything is escaped, and the page runs no script.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from ontodex.models.base import SetAttention
from ontodex.run import Explanation
from ontodex.types import LabelSpace

BLOCKS = "·▁▂▃▄▅▆▇█"
STRONG, WEAK = 0.5, 0.1  # shares of the strongest weight from which on a word stands out
STYLES = {"strong": "bold black on green", "weak": "green", "against": "red", "none": ""}
MARKS = {"strong": "**", "weak": "*", "against": "~~", "none": ""}
LOOKED_AT = 3  # predicted labels shown for each choice
NEW = "new: how far it was generated rather than copied from what the levels predicted."
COVERAGE = "coverage: the attention that each level has had so far, one for each choice."
# Beside a concept people expect what `suggest` says of it, which is another figure.
CHANCE = (
    "chance: of this label as the next one, given those above it; the probabilities of the set are "
    "those of suggest."
)
NEAR = (
    "predicted: only what comes near its label's threshold is handed to the pointer generator; "
    "the figures are those of the levels, not the probabilities of suggest."
)


def pieces(explanation: Explanation) -> Iterator[tuple[str, float]]:
    """The whole text in order, cut where a span begins or ends, with weights in [-1, 1]."""
    text = explanation.text
    spans = sorted(explanation.spans, key=lambda span: (span.start, span.end))
    strongest = max((abs(span.weight) for span in spans), default=0.0) or 1.0
    at = 0
    for span in spans:
        start = max(span.start, at)
        if start >= span.end:
            continue
        if start > at:
            yield text[at:start], 0.0
        yield text[start : span.end], span.weight / strongest
        at = span.end
    if at < len(text):
        yield text[at:], 0.0


def to_dict(explanation: Explanation) -> dict[str, Any]:
    """For programs: character offsets into the text, and weights."""
    return {
        "label": explanation.label,
        "name": explanation.name,
        "probability": explanation.probability,
        "remark": explanation.remark,
        "text": explanation.text,
        "spans": [
            {
                "start": span.start,
                "end": span.end,
                "text": explanation.text[span.start : span.end],
                "weight": span.weight,
            }
            for span in explanation.spans
        ],
    }


def highlighted(explanation: Explanation) -> None:
    """Print the text with the telling words in colour, the stronger, the brighter; where there are
    no colours, as in a file, with marks."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if console.color_system is None or console.no_color:
        console.out(marked(explanation), highlight=False)
        return
    console.print(Text(_title(explanation), style="bold"))
    line = Text()
    for piece, weight in pieces(explanation):
        line.append(piece, style=STYLES[_tone(weight)])
    console.print(line)


def marked(explanation: Explanation) -> str:
    """The text with **strong** words, *weaker* ones, and ~~words against the label~~."""
    by_mark = groupby(pieces(explanation), key=lambda piece: MARKS[_tone(piece[1])])
    texts = [mark + "".join(piece for piece, _ in group) + mark for mark, group in by_mark]
    return f"{_title(explanation)}\n{''.join(texts)}"


def _tone(weight: float) -> str:
    if weight >= STRONG:
        return "strong"
    if weight >= WEAK:
        return "weak"
    return "against" if weight <= -WEAK else "none"


def _title(explanation: Explanation) -> str:
    title = f"{explanation.name} ({explanation.label}), probability {explanation.probability:.3f}"
    return f"{title}; {explanation.remark}" if explanation.remark else title


def set_to_dict(attention: SetAttention, labels: LabelSpace) -> dict[str, Any]:
    """For programs: what the levels predicted, and for each choice its chance at that step and
    what it looked at."""
    predicted = [
        {"label": labels.ids[column], "name": labels.name(column), "level": level, "probability": p}
        for column, level, p in zip(
            attention.predicted.tolist(),
            attention.predicted_levels.tolist(),
            attention.predicted_probabilities.tolist(),
            strict=True,
        )
    ]
    chosen = [
        {
            "label": labels.ids[column],
            "name": labels.name(column),
            "chance": float(attention.chosen_probabilities[step]),
            "generated": float(attention.generated[step]),
            "attention": attention.attention[step].tolist(),
            "level_attention": attention.level_attention[step].tolist(),
            "coverage": attention.coverage[step].tolist(),
        }
        for step, column in enumerate(attention.chosen.tolist())
    ]
    return {"predicted": predicted, "chosen": chosen}


def set_picture(attention: SetAttention, labels: LabelSpace) -> str:
    """For the terminal: the labels in the order they were chosen, the coverage of each level after
    each choice (the fuller the block, the more attention it has had), what a choice looked at."""
    if not len(attention.chosen):
        predictions = _predictions(attention, labels)
        return "\n".join(["no label was chosen; the levels predicted", *predictions, NEAR])
    n_levels = attention.coverage.shape[1]
    full = max(float(attention.coverage.max()), 1e-9)
    width = len(f"{full:.1f}")
    levels = " ".join(f"{level:>{width}}" for level in range(1, n_levels + 1))
    lines = [
        f"{'':{11 + width}}level",
        f"chance  new  {levels}  chosen, and the predictions it looked at",
    ]
    for step, column in enumerate(attention.chosen.tolist()):
        covered = attention.coverage[step] / full * (len(BLOCKS) - 1)
        blocks = " ".join(f"{BLOCKS[round(float(value))]:>{width}}" for value in covered)
        chance, new = attention.chosen_probabilities[step], attention.generated[step]
        looked = _looked_at(attention, step, labels)
        seen = ", ".join(f"{name} {weight:.2f}" for name, weight in looked) or "nothing"
        lines.append(f"{chance:6.3f} {new:4.2f}  {blocks}  {labels.name(column)}  <- {seen}")
    totals = " ".join(f"{value:{width}.1f}" for value in attention.coverage[-1])
    return "\n".join([*lines, f"{'coverage':>11}  {totals}", CHANCE, NEW, COVERAGE])


def _predictions(attention: SetAttention, labels: LabelSpace) -> Iterator[str]:
    """What the levels predicted, most probable first."""
    best = np.argsort(-attention.predicted_probabilities, kind="stable")
    for c in best:
        name, level = labels.name(int(attention.predicted[c])), attention.predicted_levels[c]
        yield f"{attention.predicted_probabilities[c]:6.3f}  level {level}  {name}"
    if not len(best):
        yield "nothing near a threshold"


def _looked_at(
    attention: SetAttention, step: int, labels: LabelSpace
) -> Iterator[tuple[str, float]]:
    """The predicted labels a choice looked at most, with the weight of each."""
    weights = attention.attention[step]
    for c in np.argsort(-weights, kind="stable")[:LOOKED_AT]:
        if weights[c] >= 0.01:
            yield labels.name(int(attention.predicted[c])), float(weights[c])


def set_page(attention: SetAttention, labels: LabelSpace) -> str:
    """A self-contained HTML page: a row a choice, a column a predicted label, level by level; the
    darker a cell, the more the choice looked at that label, and how far a level is covered. Where
    nothing was chosen, what the terminal says."""
    if len(attention.chosen):
        body = _attention_table(attention, labels)
    else:
        body = f"<pre>{html.escape(set_picture(attention, labels))}</pre>"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>How the labels were chosen</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.4 system-ui, sans-serif; margin: 3rem auto; padding: 0 1rem; }}
pre {{ white-space: pre-wrap; }}
table {{ border-collapse: collapse; }}
caption {{ text-align: left; padding-bottom: 1rem; }}
thead span {{ writing-mode: vertical-rl; transform: rotate(180deg); font-weight: normal; }}
th[scope=row] {{ text-align: right; padding-right: .6em; font-weight: normal; }}
td {{ width: 2.4em; height: 2em; text-align: center; font-size: .7em; }}
td {{ background: rgb(46 160 67 / calc(var(--w) * .8)); }}
</style></head><body>{body}</body></html>
"""


def _attention_table(attention: SetAttention, labels: LabelSpace) -> str:
    n_levels = attention.coverage.shape[1]
    names = [labels.name(column) for column in attention.predicted.tolist()]
    heads = [f"level {level}" for level in range(1, n_levels + 1)]
    levels = attention.predicted_levels.tolist()
    heads += [f"{level}: {name}" for level, name in zip(levels, names, strict=True)]
    head = "".join(f'<th scope="col"><span>{html.escape(text)}</span></th>' for text in heads)
    full = max(float(attention.coverage.max()), 1e-9)
    rows = []
    for step, column in enumerate(attention.chosen.tolist()):
        cells = [_cell(value / full, f"{value:.2f}") for value in attention.coverage[step]]
        cells += [_cell(weight, f"{weight:.2f}") for weight in attention.attention[step]]
        chance, new = attention.chosen_probabilities[step], attention.generated[step]
        name = f"{labels.name(column)} (chance {chance:.3f}, new {new:.2f})"
        rows.append(f'<tr><th scope="row">{html.escape(name)}</th>{"".join(cells)}</tr>')
    caption = (
        "Labels in the order they were chosen: the coverage of each level so far, then the "
        f"attention to each predicted label. {CHANCE} {NEW} {COVERAGE}"
    )
    return (
        f"<table><caption>{caption}</caption><thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _cell(share: float, text: str) -> str:
    return f'<td style="--w:{share:.2f}">{text}</td>'


def page(explanation: Explanation) -> str:
    """A self-contained HTML page, light and dark."""
    body = "".join(
        html.escape(piece)
        if abs(weight) < 0.02
        else f'<mark class="{"for" if weight > 0 else "against"}" '
        f'style="--w:{abs(weight):.2f}">{html.escape(piece)}</mark>'
        for piece, weight in pieces(explanation)
    )
    title = html.escape(_title(explanation))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1.05rem/1.6 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; }}
body {{ padding: 0 1rem; }}
p {{ white-space: pre-wrap; }}
mark {{ color: inherit; border-radius: 3px; padding: 0 .1em; }}
.for {{ background: rgb(46 160 67 / calc(var(--w) * .7)); }}
.against {{ background: rgb(218 54 51 / calc(var(--w) * .6)); }}
</style></head><body><h1>{title}</h1><p>{body}</p></body></html>
"""
