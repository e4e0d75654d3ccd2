"""TSV with named columns; texts with tabs, quotes or line ends are quoted as in CSV."""

from __future__ import annotations

from functools import partial

from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.text_table import CAPABILITIES, detect_delimiter, read
from ontodex.corpora.parsing.text_table import write as write_table

TAKES_FIELDS = True
WRITES_FROM_CORPUS = True


def looks_like(head: Head) -> bool:
    """Recognise a header that names text and other columns, separated by tabs."""
    return detect_delimiter(head) == "\t"


write = partial(write_table, delimiter="\t")

__all__ = ["CAPABILITIES", "TAKES_FIELDS", "WRITES_FROM_CORPUS", "looks_like", "read", "write"]
