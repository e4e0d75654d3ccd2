"""Find the format of an ontology file by its content."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ontodex.errors import DataError
from ontodex.io.files import SEPARATOR_LINE, open_utf8
from ontodex.io.office import advise_office
from ontodex.ontology import mesh, named_columns

_HEAD = 64 * 2**10  # bytes that detection reads


def detect_format(path: Path | str) -> str:
    """Return the name of a file's format, by its first 64 KiB."""
    path = Path(path)
    with open_utf8(path, log_guess=False) as file:
        raw = file.read(_HEAD)
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
    head = text.lstrip()
    # Not of `head`: a tab before the first child is the empty parent of an edge.
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if len(raw) == _HEAD:
        lines.pop()  # cut in the middle
    lines = [line for line in lines if line.strip()]
    if lines and SEPARATOR_LINE.fullmatch(lines[0]):
        del lines[0]
    found = next((name for name, matches in _SIGNATURES.items() if matches(head, lines)), None)
    if found in (None, "labels") and (columns := named_columns.list_table_columns(lines)):
        raise DataError(
            f"a table whose columns are not those of a vocabulary: {', '.join(columns)}",
            path=path,
            hint=f"{named_columns.ADVICE}; or, for a list of names, --from labels of "
            "`ontodex convert`",
        )
    if found is not None:
        return found
    if (office := advise_office(raw)) is not None:
        raise DataError(f"is {office[0]}, not a vocabulary", path=path, hint=office[1])
    seen = f"it begins with {head[:60]!r}" if head else "it is empty"
    raise DataError(
        f"not a known ontology format; {seen}",
        path=path,
        hint=f"if you know the format, convert the file: ontodex convert {path} OUT.json "
        f"--from FORMAT, where FORMAT is one of {', '.join(_SIGNATURES)}",
    )


_TRIPLE = re.compile(r'(?:<[^<>"\s]*>|_:\S+)\s+<[^<>"\s]*>\s')
_TURTLE = re.compile(r"^[ \t]*(?:@prefix|@base|prefix|base)\s", re.MULTILINE | re.IGNORECASE)
_XML_ROOT = re.compile(r"<(?![?!])(?:\w+:)?(\w+)")


def _xml_root(head: str) -> str:
    match = _XML_ROOT.search(head) if head.startswith("<") else None
    return match[1] if match else ""


def _is_mesh_row(line: str) -> bool:
    """Return whether a line has id, name, synonyms and tree numbers, or a MeSH id without these."""
    columns = line.split("\t")
    if len(columns) == 3:
        return bool(mesh.UNIQUE_ID.fullmatch(columns[0]) and columns[1].strip())
    return len(columns) >= 4 and all(
        mesh.TREE_NUMBER.fullmatch(number) for number in columns[3].split("|") if number
    )


def _are_edges(lines: list[str]) -> bool:
    """Return whether each line is a pair of ids.

    Ids between spaces must have a digit. Ids between tabs may be any text; if one has a space, some
    child must be the parent of others.
    """
    for line in lines:
        ends = line.split("\t") if "\t" in line else line.split()
        if len(ends) != 2:
            return False
        if "\t" not in line and not all(re.search(r"\d", end) for end in ends):
            return False
    pairs = [line.split("\t") for line in lines if "\t" in line]
    parents = {parent for parent, child in pairs if parent != child}
    has_spaces = any(" " in end for pair in pairs for end in pair)
    return bool(lines) and (not has_spaces or any(child in parents for _, child in pairs))


def _are_named_ids(lines: list[str]) -> bool:
    """Return whether each line is an id without spaces, a tab and a name, with no id twice."""
    rows = [line.split("\t") for line in lines]
    ids = {row[0] for row in rows if len(row) == 2 and row[1].strip()}
    return len(ids) == len(rows) > 0 and not any(re.search(r"\s", one) for one in ids)


# In the order of detection: the first format whose signature matches is taken.
_SIGNATURES: dict[str, Callable[[str, list[str]], bool]] = {
    "mesh-xml": lambda head, lines: _xml_root(head) == "DescriptorRecordSet",
    "rdfxml": lambda head, lines: _xml_root(head) == "RDF",
    "jsonld": lambda head, lines: head[:1] in ("{", "[") and bool(
        re.search(r'"@(context|graph|id)"\s*:', head)
    ),
    "json": lambda head, lines: head[:1] in ("{", "["),
    "mesh-ascii": lambda head, lines: head.startswith("*NEWRECORD"),
    "obo": lambda head, lines: head.startswith("format-version:") or "[Term]" in lines,
    "ntriples": lambda head, lines: bool(lines) and all(
        _TRIPLE.match(line) and line.rstrip().endswith(".")
        for line in lines
        if not line.startswith("#")
    ),
    "turtle": lambda head, lines: bool(_TURTLE.search(head)),
    "mesh-trees": lambda head, lines: bool(lines) and all(
        mesh.TREE_NUMBER.fullmatch(line.rpartition(";")[2]) for line in lines
    ),
    "annif-csv": lambda head, lines: bool(lines) and bool(
        {"uri"} < set(lines[0].replace('"', "").split(","))
        and ("label_" in lines[0] or not named_columns.is_header(lines[0]))
    ),
    "table": lambda head, lines: bool(lines) and named_columns.is_header(lines[0]),
    "annif-tsv": lambda head, lines: (bool(lines) and all(
        re.match(r"<[^<>\t]+>\t", line) for line in lines
    )) or (not _are_edges(lines) and _are_named_ids(lines)),
    "mesh-tsv": lambda head, lines: bool(lines) and all(map(_is_mesh_row, lines)),
    "edges": lambda head, lines: _are_edges(lines),
    "labels": lambda head, lines: bool(lines) and not any(
        "\t" in line or len(line) > 200 or "\ufffd" in line or "\0" in line for line in lines
    ),
}  # fmt: skip

__all__ = ["detect_format"]
