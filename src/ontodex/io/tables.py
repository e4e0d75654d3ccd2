"""Format rows of cells for a terminal, as Markdown or as HTML.

The first row is the header and the first column has names; all other cells are numbers and aligned
to the right. Cells of files that spreadsheets open go through `escape_formula`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape

Rows = Sequence[Sequence[str]]


def align_columns(rows: Rows) -> str:
    """Return the rows with columns of equal width, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [row[0].ljust(widths[0])]
        + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        for row in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def format_markdown(rows: Rows) -> str:
    """Return a Markdown table."""
    head, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def format_html(rows: Rows) -> str:
    """Return an HTML table that scrolls sideways on a narrow page."""
    head, *body = rows
    lines = [_html_row("th", head), *(_html_row("td", row) for row in body)]
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _html_row(tag: str, row: Sequence[str]) -> str:
    figures = "".join(f'<{tag} class="number">{escape(cell)}</{tag}>' for cell in row[1:])
    return f"<tr><{tag}>{escape(row[0])}</{tag}>{figures}</tr>"


def escape_formula(cell: str) -> str:
    """Put an apostrophe before a cell that a spreadsheet would read as a formula.

    Some programs fold full-width signs to plain ones, so the folded text is tested.
    """
    folded = unicodedata.normalize("NFKC", cell.lstrip(" ")[:8]).lstrip(" ")
    marks = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
    return f"'{cell}" if folded.startswith(marks) else cell
