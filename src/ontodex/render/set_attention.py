"""The steps in which a system generated a label set, for a terminal, for programs or as a page.

Labels and names come from strangers: everything is escaped, and the page runs no script.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np

from ontodex.types import LabelSpace
from ontodex.types.answers import SetAttention

BLOCKS = "·▁▂▃▄▅▆▇█"
MOST_ATTENDED = 3  # predicted labels shown for each step
NEW = "new: probability that the label was generated, not copied from the predictions."
COVERAGE = "coverage: attention of all steps so far to each level; each step adds 1."
# Readers would take the number beside a concept for the probability that `suggest` shows.
CHANCE = (
    "chance: of this label as the next one, given those above it; the probabilities of the set are "
    "those of suggest."
)
NEAR = (
    "predicted: only labels near their threshold are passed to the pointer generator; the numbers "
    "are those of the levels, not the probabilities of suggest."
)


def set_attention_to_dict(attention: SetAttention, labels: LabelSpace) -> dict[str, Any]:
    """Return, for programs, the predictions of the levels, and the probability and the attention
    of each step."""
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


def format_set_attention(attention: SetAttention, labels: LabelSpace) -> str:
    """Return, for a terminal, the labels in the order of the steps, each with the coverage of each
    level (a fuller block is more attention) and the predictions it attended to most."""
    if not len(attention.chosen):
        predictions = _format_predictions(attention, labels)
        return "\n".join(["no label was chosen; the levels predicted", *predictions, NEAR])
    n_levels = attention.coverage.shape[1]
    full = max(float(attention.coverage.max()), 1e-9)
    width = len(f"{full:.1f}")
    levels = " ".join(f"{level:>{width}}" for level in range(1, n_levels + 1))
    lines = [
        f"{'':{11 + width}}level",
        f"chance  new  {levels}  chosen, and the predictions it attended to",
    ]
    for step, column in enumerate(attention.chosen.tolist()):
        covered = attention.coverage[step] / full * (len(BLOCKS) - 1)
        blocks = " ".join(f"{BLOCKS[round(float(value))]:>{width}}" for value in covered)
        chance, new = attention.chosen_probabilities[step], attention.generated[step]
        attended = _find_most_attended(attention, step, labels)
        seen = ", ".join(f"{name} {weight:.2f}" for name, weight in attended) or "nothing"
        lines.append(f"{chance:6.3f} {new:4.2f}  {blocks}  {labels.name(column)}  <- {seen}")
    totals = " ".join(f"{value:{width}.1f}" for value in attention.coverage[-1])
    return "\n".join([*lines, f"{'coverage':>11}  {totals}", CHANCE, NEW, COVERAGE])


def _format_predictions(attention: SetAttention, labels: LabelSpace) -> Iterator[str]:
    """Yield the predictions of the levels, most probable first."""
    best = np.argsort(-attention.predicted_probabilities, kind="stable")
    for c in best:
        name, level = labels.name(int(attention.predicted[c])), attention.predicted_levels[c]
        yield f"{attention.predicted_probabilities[c]:6.3f}  level {level}  {name}"
    if not len(best):
        yield "nothing near a threshold"


def _find_most_attended(
    attention: SetAttention, step: int, labels: LabelSpace
) -> Iterator[tuple[str, float]]:
    """Yield the predicted labels that a step attended to most, with their weights."""
    weights = attention.attention[step]
    for c in np.argsort(-weights, kind="stable")[:MOST_ATTENDED]:
        if weights[c] >= 0.01:
            yield labels.name(int(attention.predicted[c])), float(weights[c])


def set_attention_page(attention: SetAttention, labels: LabelSpace) -> str:
    """Return a self-contained HTML page: one row a step, one column a predicted label, by level.

    A darker cell is more attention, or more coverage of a level. Without any step, the page has the
    text of the terminal.
    """
    if len(attention.chosen):
        body = _attention_table(attention, labels)
    else:
        body = f"<pre>{html.escape(format_set_attention(attention, labels))}</pre>"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The steps of the label set</title>
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
