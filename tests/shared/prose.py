"""Read the sentences of a page in Markdown, or of a docstring, without code and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
OWNER = re.compile(
    r"(?:[-*+]|\d+\.|\[\^[\w-]+\]:|!!!|\?\?\?)\s"
)  # indented lines below are its text
LISTED = re.compile(r"^\S+(?:, \S+)* {2,}\S", re.M)  # a name, then what it means
END = re.compile(r"(?<=[.!?])[\"')*_]*\s+")


def read_sentences(page: str) -> list[str]:
    """Return the sentences of the paragraphs, list items, quotations and footnotes of a page."""
    return [one for block in read_blocks(page) for one in END.split(block.strip()) if one]


def read_docstring(docstring: str) -> list[str]:
    """Return the sentences of a docstring, without its examples and its aligned lists."""
    lines = [line for line in docstring.splitlines() if not line.startswith("    ")]
    paragraphs = "\n".join(lines).split("\n\n")
    prose = [one for one in paragraphs if not one.startswith(">>>") and not LISTED.search(one)]
    return read_sentences("\n\n".join(prose))


def read_blocks(page: str) -> Iterator[str]:
    """Yield the text of each block that is neither code, nor a row of a table, nor a heading."""
    block: list[str] = []
    fence, owned = "", False
    for line in [*re.sub(r"<!--.*?-->", "", page, flags=re.S).splitlines(), ""]:
        text = line.strip()
        if fence:
            fence = "" if text == fence else fence
            continue
        indented = line.startswith("    ") and not block
        fence = text[:3] if text.startswith(("```", "~~~")) else ""
        code = fence or (indented and not owned)
        if not text or code or text.startswith(("|", "#", "!!!", "::: ")) or ITEM.match(line):
            if block:
                yield " ".join(block)
            block = []
        if text and not line.startswith(" "):
            owned = bool(OWNER.match(line))
        if text and not code and not text.startswith(("|", "#", "!!!", "::: ")):
            block.append(re.sub(r"\[\^[\w-]+\](?!:)", "", ITEM.sub("", line).strip().lstrip("> ")))
