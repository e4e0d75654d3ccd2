"""An extension of griffe: show examples and aligned lists of docstrings as code blocks."""

from __future__ import annotations

import re
from typing import Any

import griffe


class CodeBlocks(griffe.Extension):
    """Fence the paragraphs of docstrings that are no prose."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            paragraphs = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(fence(paragraph) for paragraph in paragraphs)


def fence(paragraph: str) -> str:
    """Return the paragraph, as a code block where it is an example or an aligned list."""
    if paragraph.startswith((">>>", "import ")):
        return f"```python\n{paragraph}\n```"
    if re.search(r"^\S+(?:, \S+)* {2,}\S", paragraph, re.M):
        return f"```text\n{paragraph}\n```"
    return paragraph
