"""Write numbers of things for people: "1 document", "1,200 documents"."""

from __future__ import annotations


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return the number with the noun in the right form; `plural` where it is not noun + s.

    >>> format_count(1, "document"), format_count(1200, "entry", "entries")
    ('1 document', '1,200 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
