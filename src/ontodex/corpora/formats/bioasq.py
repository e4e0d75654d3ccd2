"""BioASQ task A, and its MESINESP variant: one JSON object with a list of articles.

{"articles":[
{"pmid":"1","title":"...","abstractText":"...","journal":"...","year":"2020","meshMajor":["Humans"]},
{"id":"biblio-1","title":"...","abstractText":"...","db":"IBECS","decsCodes":["28567"]}]}

The published sets have one article per line, so files of any size are read as a stream. A small
file may have any other layout. The labels of meshMajor are names; `label_names.resolve_names`
replaces them by ids with an ontology. Other keys are metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ontodex.corpora.parsing.capabilities import FormatCapabilities, drop_empty
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.json_objects import (
    dump_json,
    get_id,
    get_rest,
    get_strings,
    get_text,
    parse_object,
)
from ontodex.corpora.parsing.records import Records
from ontodex.errors import DataError
from ontodex.io.files import BOM, decode, open_atomic_packed, open_bytes, read_raw_lines
from ontodex.types import Doc

CAPABILITIES = FormatCapabilities(fields="title and abstract", empty_fields=False, metadata="all")

LARGEST_WHOLE = 64 * 2**20

_OPENING = re.compile(rb'\s*\{\s*"articles"\s*:\s*\[')
_CLOSING = re.compile(rb"\]\s*\}\s*$")
_BETWEEN = re.compile(r"\s*,?\s*")
_KEYS = ("pmid", "id", "title", "abstractText", "meshMajor", "decsCodes")


def looks_like(head: Head) -> bool:
    """Recognise an object that begins with its list of articles."""
    return _OPENING.match(head.start.removeprefix(BOM)) is not None


def read(path: Path) -> Records[bytes]:
    """The articles of a file."""
    start = Head.of(path).start.removeprefix(BOM)
    opening = _OPENING.match(start)
    if opening is None:
        raise DataError(
            f'should begin with {{"articles": [ but begins with {start[:40]!r}', path=path, line=1
        )
    first = start[opening.end() :].strip().partition(b"\n")[0].strip()
    is_one_a_line = b"\n" not in opening[0] and (
        _is_json(first.removesuffix(b",")) or _is_json(_CLOSING.sub(b"", first))
    )
    articles = _read_by_line if is_one_a_line else _read_whole
    return Records(path, articles(path, opening.end()), _parse)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_by_line(path: Path, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, JSON text) of each article, of a file with one per line."""
    number, text = 0, b""
    for line_number, line in read_raw_lines(path):
        if not line.strip():
            continue
        if text == b"]":  # the closing brackets are on two lines
            text += line
            continue
        if number:
            yield number, text.removesuffix(b",")
        number, text = line_number, line.rstrip() if number else line[start:].rstrip()
    # Any line may end in the same two brackets, but only the last one closes the list.
    if not _CLOSING.search(text):
        raise _cut_off_error(path, number)
    yield number, _CLOSING.sub(b"", text)


def _read_whole(path: Path, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield the same of a file in any layout, read into memory."""
    with open_bytes(path) as file:
        raw = file.read(LARGEST_WHOLE + 1).removeprefix(BOM)
    if len(raw) > LARGEST_WHOLE:
        raise DataError(
            f"larger than {LARGEST_WHOLE // 2**20} MiB, and does not have one article per line",
            path=path,
            hint="write every article on its own line, for example with jq -c '.articles[]'",
        )
    text, decoder = decode(raw, path=path), json.JSONDecoder()
    line, at = 1 + text.count("\n", 0, start), start
    while True:
        between = _BETWEEN.match(text, at)
        assert between is not None  # it may be empty
        line += text.count("\n", at, between.end())
        at = between.end()
        if text.startswith("]", at):
            return
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if at == len(text):
                raise _cut_off_error(path, line) from error
            raise DataError(f"not JSON ({error})", path=path, line=line) from error
        yield line, text[at:end].encode()
        line += text.count("\n", at, end)
        at = end


def _cut_off_error(path: Path, line: int) -> DataError:
    return DataError(
        "ends inside its list of articles", path=path, line=line, hint="download or create it again"
    )


def _parse(_: int, raw: bytes) -> Doc | None:
    found = parse_object(decode(raw))
    if found is None:
        return None
    fields = {"title": get_text(found, "title"), "abstract": get_text(found, "abstractText")}
    metadata = get_rest(found, _KEYS)
    year = metadata.get("year")
    if isinstance(year, str) and year.isascii() and year.isdigit():
        metadata["year"] = int(year)
    return Doc(
        get_id(found, "pmid" if "pmid" in found else "id"),
        drop_empty(fields),
        labels=get_strings(found, "decsCodes" if "decsCodes" in found else "meshMajor"),
        metadata=metadata,
    )


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write one article per line; documents with `db` are written as MESINESP articles."""
    count = 0
    with open_atomic_packed(path) as file:
        file.write(b'{"articles":[')
        for doc in docs:
            file.write((",\n" if count else "\n").encode() + dump_json(_make_article(doc)).encode())
            count += 1
        file.write(b"\n]}\n")
    return count


def _make_article(doc: Doc) -> dict[str, Any]:
    identifier, labels = ("id", "decsCodes") if "db" in doc.metadata else ("pmid", "meshMajor")
    article = {
        identifier: doc.id,
        "title": doc.fields.get("title", ""),
        "abstractText": doc.fields.get("abstract", ""),
        labels: list(doc.labels),
    }
    return article | {key: value for key, value in doc.metadata.items() if key not in _KEYS}
