"""The explanation of a label for people: in colour in a terminal, marked in a file, or as a page.

Texts, labels and names come from strangers: everything is escaped, and the page runs no script.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ontodex.io.terminal import clean_lines, replace_control_characters
from ontodex.types.answers import Explanation

STRONG, WEAK = 0.5, 0.1  # shares of the strongest weight from which on a word is marked
STYLES = {"strong": "bold black on green", "weak": "green", "against": "red", "none": ""}
MARKS = {"strong": "**", "weak": "*", "against": "~~", "none": ""}


def split_text(explanation: Explanation) -> Iterator[tuple[str, float]]:
    """Yield the whole text in order, cut where a span begins or ends, with weights in [-1, 1]."""
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


def explanation_to_dict(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation for programs, with character offsets and weights."""
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


def print_explanation(explanation: Explanation) -> None:
    """Print the text with the words that support the label in colour; with marks in a file."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if console.color_system is None or console.no_color:
        console.out(clean_lines(format_explanation(explanation)), highlight=False)
        return
    console.print(Text(replace_control_characters(_title(explanation)), style="bold"))
    line = Text()
    for part, weight in split_text(explanation):
        line.append(clean_lines(part), style=STYLES[_tone(weight)])
    console.print(line)


def format_explanation(explanation: Explanation) -> str:
    """Return the text with **strong** words, *weaker* ones, and ~~words against the label~~."""
    by_mark = groupby(split_text(explanation), key=lambda part: MARKS[_tone(part[1])])
    texts = [mark + "".join(part for part, _ in group) + mark for mark, group in by_mark]
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


def explanation_page(explanation: Explanation) -> str:
    """Return a self-contained HTML page, light and dark."""
    body = "".join(
        html.escape(part)
        if abs(weight) < 0.02
        else f'<mark class="{"for" if weight > 0 else "against"}" '
        f'style="--w:{abs(weight):.2f}">{html.escape(part)}</mark>'
        for part, weight in split_text(explanation)
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
