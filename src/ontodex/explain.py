"""An explanation as people see it: highlighted in the terminal, or as a page of its own.

Texts, labels and names may be hostile: everything is escaped, and the page runs no script.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from ontodex.run import Explanation


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
    """Print the text with the telling words in colour; the stronger, the brighter."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(_title(explanation), style="bold"))
    line = Text()
    for piece, weight in pieces(explanation):
        line.append(piece, style=_style(weight))
    console.print(line)


def _style(weight: float) -> str:
    if weight >= 0.5:
        return "bold black on green"
    if weight >= 0.1:
        return "green"
    return "red" if weight <= -0.1 else ""


def _title(explanation: Explanation) -> str:
    return f"{explanation.name} ({explanation.label}), probability {explanation.probability:.3f}"


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
