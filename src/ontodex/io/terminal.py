"""Text of strangers on a terminal, which would obey its control characters.

An escape sequence in the name of a concept can move the cursor, change the title of the window or
hide a line; marks of the writing direction can show an id backwards.
"""

from __future__ import annotations

import re

# C0 and C1 controls, line and paragraph separators, overrides and isolates of the writing
# direction, and halves of surrogate pairs, which no stream can encode.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
REPLACEMENT = "\ufffd"


def replace_control_characters(text: str) -> str:
    """Return the text with every control character replaced, line ends and tabs too."""
    return _CONTROL.sub(REPLACEMENT, text)


def clean_lines(text: str) -> str:
    """Return lines of text with every control character replaced but line ends and tabs."""
    return _CONTROL.sub(lambda found: found[0] if found[0] in "\n\t" else REPLACEMENT, text)


def escape_json(text: str) -> str:
    """Return JSON of the same value that has no control character but line ends."""
    return _CONTROL.sub(lambda found: _escape(found[0]) if found[0] != "\n" else "\n", text)


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"
