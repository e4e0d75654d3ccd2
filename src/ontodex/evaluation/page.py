"""The HTML of reports: one file with its style, without scripts and network requests.

Documents and names are untrusted: all text passes `escape_text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escape_text(text: object) -> str:
    """Return text for HTML: escaped, without characters that HTML forbids."""
    return escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def make_html_page(title: str, body: Iterable[str]) -> str:
    """Return a page with the style of all reports."""
    style = files("ontodex.evaluation").joinpath("report.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape_text(title)}</title><style>{style}</style></head><body>",
    ]
    return "\n".join([*head, *body, "</body></html>"]) + "\n"


def make_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    n_text: int = 1,
    first_is_html: bool = False,
) -> Iterator[str]:
    """Write a table whose first `n_text` columns are text and the others are numbers."""

    def write_cells(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}>{cell if first_is_html and not column and tag == 'td' else escape_text(cell)}"
            f"</{tag}>"
            if column < n_text
            else f'<{tag} class="number">{escape_text(cell)}</{tag}>'
            for column, cell in enumerate(cells)
        )

    yield f'<div class="wide"><table><thead><tr>{write_cells("th", head)}</tr></thead><tbody>'
    for row in rows:
        yield f"<tr>{write_cells('td', row)}</tr>"
    yield "</tbody></table></div>"
