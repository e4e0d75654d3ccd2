"""Read the text of a PDF: a title, and paragraphs instead of lines.

    pages ─ lines ─ title taken out ─ hyphens at line ends undone ─ lines joined to paragraphs

The title is that of the metadata or, if there is none of use, the largest line of the first page.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ontodex.errors import DataError, require
from ontodex.io.counts import format_count

logger = logging.getLogger(__name__)

TITLE_LINES = 20  # first lines among which the title is looked for
MAX_TITLE = 300  # characters
LARGER = 1.15  # times the usual size: the size of a title
SHORT = 0.7  # of the usual length: the last line of a paragraph
_SCANNED = "has no text layer; it looks scanned: run OCR first, for example with ocrmypdf"
_NO_TITLE = re.compile(
    r"untitled\b|microsoft (?:word|powerpoint)|\S+\.(?:docx?|pdf|tex|dvi|indd|qxd|pptx?|odt)$", re.I
)
_HYPHEN = re.compile(r"(?<![^\W\d_])([^\W\d_]{2,}+)[-\u2010\u00ad]$")
_LONGEST_WORD = 100  # characters at the end of a line, among which a broken word is looked for
_WORD = re.compile(r"\w++(?:-\w++)?")
_SENTENCE_END = re.compile(r"[.!?:;][\"')\]\u2019\u201d]*$")
_LIST_ITEM = re.compile(r"(?:[-*\u2022\u2013]|\(?\d{1,3}[.)]|[a-z]\))\s")


def read_pdf(path: Path, max_characters: int) -> tuple[str, str]:
    """Return title and text of a PDF; the title is empty if none was found.

    Raise a DataError for a file that is damaged, encrypted, too long, or scanned.
    """
    pypdf = require("pypdf", extra="serve", purpose="reading PDF")
    errors = require("pypdf.errors", extra="serve", purpose="reading PDF")
    try:
        reader = pypdf.PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise DataError("is encrypted", hint="save a copy without a password")
        pages = _read_pages(reader, max_characters)
        title = _clean_title(reader.metadata) or (
            _find_large_line(reader.pages[0]) if pages else ""
        )
        _check_text_layer(reader, pages)
    except (
        errors.PyPdfError, ValueError, TypeError, LookupError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        # pypdf raises many kinds of errors for a damaged PDF.
        raise DataError(f"not a readable PDF ({type(error).__name__})") from error
    lines = [line.rstrip() for page in pages for line in page.split("\n")]
    return title, "\n".join(join_lines(remove_title(lines, title)))


def _read_pages(reader: Any, max_characters: int) -> list[str]:
    pages: list[str] = []
    n_characters = 0
    for page in reader.pages:
        pages.append(page.extract_text())
        n_characters += len(pages[-1])
        if n_characters > max_characters:
            raise DataError(f"has more than {max_characters:,} characters")
    return pages


def _check_text_layer(reader: Any, pages: Sequence[str]) -> None:
    """Raise an error for a scanned PDF; warn of one with some scanned pages."""
    empty = [number for number, text in enumerate(pages) if not text.strip()]
    scanned = [number for number in empty if _has_image(reader.pages[number])]
    if scanned and len(empty) == len(pages):
        raise DataError(_SCANNED)
    if scanned:
        logger.warning(
            "without a text layer, and probably scanned: %s of %s; the text there is missing; run "
            "OCR first, for example with ocrmypdf",
            f"{len(scanned):,}",
            format_count(len(pages), "page"),
        )


def _has_image(page: Any) -> bool:
    resources = page.get("/Resources")
    objects = resources.get_object().get("/XObject") if resources is not None else None
    found = objects.get_object().values() if objects is not None else ()
    return any(one.get_object().get("/Subtype") in ("/Image", "/Form") for one in found)


def _clean_title(metadata: Any) -> str:
    """Return the title of the metadata, unless it is the name of a file or a placeholder."""
    title = " ".join(str((metadata and metadata.title) or "").split())
    is_usable = bool(re.search(r"[^\W\d_]{2}", title)) and not _NO_TITLE.match(title)
    return title if is_usable and len(title) <= MAX_TITLE else ""


def _find_large_line(page: Any) -> str:
    """Return the text in the largest letters of a page, if they are larger than the usual ones."""
    pieces: list[tuple[float, str]] = []

    def note(text: str, user: Any, matrix: Any, font: Any, size: float) -> None:
        scale = abs(matrix[3] * user[3]) or 1.0
        pieces.append((round(size * scale, 1), text))

    page.extract_text(visitor_text=note)
    characters = Counter[float]()
    for size, text in pieces:
        characters[size] += len(text.strip())
    sizes = [size for size, n in characters.items() if n]
    if not sizes:
        return ""
    largest, usual = max(sizes), max(sizes, key=characters.__getitem__)
    title = " ".join(" ".join(text for size, text in pieces if size == largest).split())
    is_title = largest >= LARGER * usual and re.search(r"[^\W\d_]{2}", title)
    return title if is_title and len(title) <= MAX_TITLE else ""


def remove_title(lines: Sequence[str], title: str) -> list[str]:
    """Return the lines without those at the top that are the title."""
    wanted = _fold(title)
    for start in range(min(TITLE_LINES, len(lines)) if wanted else 0):
        found = ""
        for end in range(start, min(start + TITLE_LINES, len(lines))):
            found += _fold(lines[end])
            if found == wanted:
                return [*lines[:start], *lines[end + 1 :]]
            if not wanted.startswith(found):
                break
    return list(lines)


def _fold(text: str) -> str:
    return re.sub(r"\W+", "", text).casefold()


def join_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield paragraphs. A hyphen at the end of a line goes, unless the text has the compound."""
    usual = _find_usual_length(lines)
    words = (word for line in lines for word in _WORD.findall(line))
    compounds = {word.casefold() for word in words if "-" in word}
    parts: list[str] = []  # of the paragraph; to join them line by line would copy it each time
    for number, raw in enumerate(lines):
        line = " ".join(raw.split())
        _append(parts, line, compounds)
        following = lines[number + 1].strip() if number + 1 < len(lines) else ""
        if parts and _ends_paragraph(line, following, usual):
            yield "".join(parts)
            parts = []


def _append(parts: list[str], line: str, compounds: set[str]) -> None:
    """Add one more line to the parts of a paragraph."""
    end = "".join(part[-_LONGEST_WORD:] for part in parts[-3:])
    broken = _HYPHEN.search(end)
    if broken and line[:1].islower():
        first_word = re.match(r"\w+", line)
        compound = f"{broken[1]}-{first_word[0] if first_word else ''}".casefold()
        parts[-1] = parts[-1][:-1] + ("-" if compound in compounds else "")
        parts.append(line)
    elif line:
        parts.append(f" {line}" if parts else line)


def _ends_paragraph(line: str, following: str, usual: int) -> bool:
    if not line or not following:
        return True
    if _HYPHEN.search(line[-_LONGEST_WORD:]):
        return False
    is_short = len(line) < SHORT * usual
    is_heading = is_short and not following[:1].islower() and not line.endswith(",")
    return (
        is_heading
        or (is_short and bool(_SENTENCE_END.search(line)))
        or bool(_LIST_ITEM.match(following))
    )


def _find_usual_length(lines: Sequence[str]) -> int:
    """Return the length that a quarter of the lines with text reach: that of full lines."""
    lengths = sorted(len(line.strip()) for line in lines if line.strip())
    return lengths[(3 * len(lengths)) // 4] if lengths else 0
