"""Format a number of things for messages."""

from __future__ import annotations


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return "1 document", "2,000 documents"; `plural` is for nouns that take no -s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
