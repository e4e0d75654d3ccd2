"""Annif full text: a folder with a.txt and its concepts in a.tsv or a.key, or with a.json.

The name without ending is the id, with %XX for characters that a file name cannot have. Lines of
a.tsv are `<uri><TAB>label`, those of a.key are labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from ontodex.corpora.characters import check_text
from ontodex.corpora.formats import annif_json
from ontodex.corpora.formats.annif_tsv import LABEL_FORBIDS
from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.file_head import Head, check_replaceable
from ontodex.corpora.parsing.json_objects import parse_object
from ontodex.corpora.parsing.records import Records
from ontodex.errors import DataError
from ontodex.io.files import BOM, decode, open_utf8, read_lines, replace_folder
from ontodex.types import Doc

CAPABILITIES = FormatCapabilities(label_forbids=LABEL_FORBIDS)
_LONGEST_NAME = 240
_ENDINGS = (".txt", ".tsv", ".key", ".json")


def looks_like(head: Head) -> bool:
    """Recognise a folder of nothing but texts and their concepts, or of Annif's JSON."""
    names = [Path(name) for name in head.names]
    texts = {name.stem for name in names if name.suffix == ".txt"}
    objects = [name for name in names if name.suffix == ".json"]
    if not names or any(name.suffix not in _ENDINGS for name in names):
        return False
    if objects:
        return annif_json.looks_like(Head.of(head.path / objects[0]))
    return all(name.stem in texts for name in names)


def sources(path: Path) -> list[Path]:
    """Return all files of the folder that are read."""
    return sorted(file for file in path.iterdir() if file.suffix in _ENDINGS)


def read(path: Path) -> Iterator[Doc]:
    """Read the documents in the order of their file names."""
    files = (file for file in sources(path) if file.suffix in (".txt", ".json"))
    return Records(path, ((None, file) for file in files), _read_file)


def _read_file(_: int, file: Path) -> Doc:
    try:
        return _read_doc(file)
    except DataError as error:
        raise error if error.path is not None else error.at(file) from error


def _read_doc(file: Path) -> Doc:
    id_ = _decode_id(file)
    with open_utf8(file) as source:
        text = decode(source.read().removeprefix(BOM), path=file)
    if file.suffix == ".json":
        return annif_json.make_doc(parse_object(text) or {}, id_)
    return Doc(id_, {"text": text}, labels=_read_labels(file))


def _decode_id(file: Path) -> str:
    try:
        id_ = unquote(file.stem, errors="strict")
        check_text(id_)
    except (UnicodeDecodeError, DataError) as error:
        raise DataError(f"the file name {file.name!a} is not UTF-8") from error
    return id_


def _read_labels(text: Path) -> tuple[str, ...]:
    subjects, keys = text.with_suffix(".tsv"), text.with_suffix(".key")
    if subjects.exists():
        cells = (line.partition("\t")[0].strip() for _, line in read_lines(subjects))
        return tuple(cell.removeprefix("<").removesuffix(">") for cell in cells if cell)
    if keys.exists():
        return tuple(line.strip() for _, line in read_lines(keys) if line.strip())
    return ()


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write a text and, for a document with labels, a .tsv; replace a folder of this format."""
    check_replaceable(path, looks_like)
    count = 0
    with replace_folder(path) as folder:
        for doc in docs:
            count += 1
            target = folder / f"{_encode_id(doc.id)}.txt"
            if target.exists():
                raise DataError(
                    f"two documents have the id {doc.id!r}, which is the name of a file"
                )
            text = doc.fields["text"].encode()
            target.write_bytes(BOM + text if text.startswith(BOM) else text)
            if doc.labels:
                lines = "".join(f"<{label}>\t{label}\n" for label in doc.labels)
                target.with_suffix(".tsv").write_bytes(lines.encode())
    return count


def _encode_id(id_: str) -> str:
    name = quote(id_, safe=" ()[]{}+,;=@&!'^~#$")
    if not name or len(name.encode()) > _LONGEST_NAME:
        raise DataError(f"id {id_[:60]!r} is empty or too long for a file name")
    return name
