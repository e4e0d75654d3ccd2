"""TSV with named columns; texts with tabs, quotes or line ends are quoted as in CSV."""

from __future__ import annotations

from functools import partial

from ontodex.read.head import Head
from ontodex.read.table import HOLDS, delimiter_of, read
from ontodex.read.table import write as write_table

TAKES_TEXT_FIELDS = True
WRITES_FROM_CORPUS = True


def looks_like(head: Head) -> bool:
    """A header that names text and other columns, separated by tabs."""
    return delimiter_of(head) == "\t"


write = partial(write_table, delimiter="\t")

__all__ = ["HOLDS", "TAKES_TEXT_FIELDS", "WRITES_FROM_CORPUS", "looks_like", "read", "write"]
