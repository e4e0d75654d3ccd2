"""Rows of cells as people read them: aligned for a terminal, as Markdown, as HTML.

The first row is the head, the first column holds names; everything else is figures, to the right.
Cells that spreadsheets open go through `spreadsheet_safe`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape

Rows = Sequence[Sequence[str]]


def aligned(rows: Rows) -> str:
    """Columns of equal width, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [row[0].ljust(widths[0])]
        + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        for row in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def markdown(rows: Rows) -> str:
    """A pipe table."""
    head, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def html(rows: Rows) -> str:
    """A table that scrolls sideways where the page is narrow."""
    head, *body = rows
    lines = [_html_row("th", head), *(_html_row("td", row) for row in body)]
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _html_row(tag: str, row: Sequence[str]) -> str:
    figures = "".join(f'<{tag} class="number">{escape(cell)}</{tag}>' for cell in row[1:])
    return f"<tr><{tag}>{escape(row[0])}</{tag}>{figures}</tr>"


def spreadsheet_safe(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe stands before one. Some
    programs fold full-width signs to the plain ones, so the folded text is looked at."""
    folded = unicodedata.normalize("NFKC", cell.lstrip(" ")[:8]).lstrip(" ")
    marks = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
    return f"'{cell}" if folded.startswith(marks) else cell
