"""Annif full text: a folder with a.txt, its concepts in a.tsv or a.key; or a.json with all of it.

The name without ending is the id, with what a file name cannot hold written as %XX. Lines of
a.tsv are `<uri><TAB>label`, those of a.key are labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from ontodex.errors import DataError
from ontodex.files import BOM, atomic_folder, decode, open_bytes, read_lines
from ontodex.read import annif_json
from ontodex.read.annif_tsv import LABEL_FORBIDS
from ontodex.read.characters import check_text
from ontodex.read.head import Head, check_free
from ontodex.read.holds import Holds
from ontodex.read.lines import Records
from ontodex.read.objects import parse_object
from ontodex.types import Doc

HOLDS = Holds(label_forbids=LABEL_FORBIDS)
_LONGEST_NAME = 240
_ENDINGS = (".txt", ".tsv", ".key", ".json")


def looks_like(head: Head) -> bool:
    """A folder of nothing but texts and their concepts, or of Annif's JSON."""
    names = [Path(name) for name in head.names]
    texts = {name.stem for name in names if name.suffix == ".txt"}
    objects = [name for name in names if name.suffix == ".json"]
    if not names or any(name.suffix not in _ENDINGS for name in names):
        return False
    if objects:
        return annif_json.looks_like(Head.of(head.path / objects[0]))
    return all(name.stem in texts for name in names)


def sources(path: Path) -> list[Path]:
    """All files of the folder that are read."""
    return sorted(file for file in path.iterdir() if file.suffix in _ENDINGS)


def read(path: Path) -> Iterator[Doc]:
    """The documents in the order of their file names."""
    files = (file for file in sources(path) if file.suffix in (".txt", ".json"))
    return Records(path, enumerate(files, start=1), _document)


def _document(_: int, file: Path) -> Doc:
    id_ = _id(file)
    with open_bytes(file) as source:
        text = decode(source.read().removeprefix(BOM), path=file)
    if file.suffix == ".json":
        return annif_json.document(parse_object(text) or {}, id_)
    return Doc(id_, {"text": text}, labels=_labels(file))


def _id(file: Path) -> str:
    try:
        id_ = unquote(file.stem, errors="strict")
        check_text(id_)
    except (UnicodeDecodeError, DataError) as error:
        raise DataError(f"the file name {file.name!a} is not UTF-8") from error
    return id_


def _labels(text: Path) -> tuple[str, ...]:
    subjects, keys = text.with_suffix(".tsv"), text.with_suffix(".key")
    if subjects.exists():
        cells = (line.partition("\t")[0].strip() for _, line in read_lines(subjects))
        return tuple(cell.removeprefix("<").removesuffix(">") for cell in cells if cell)
    if keys.exists():
        return tuple(line.strip() for _, line in read_lines(keys) if line.strip())
    return ()


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write a text and, for a labelled document, a .tsv; a folder of this kind is replaced."""
    check_free(path, looks_like)
    count = 0
    with atomic_folder(path) as folder:
        for doc in docs:
            count += 1
            target = folder / f"{_file_name(doc.id)}.txt"
            if target.exists():
                raise DataError(f"two documents have the id {doc.id!r}, but files need two names")
            text = doc.fields["text"].encode()
            target.write_bytes(BOM + text if text.startswith(BOM) else text)
            if doc.labels:
                lines = "".join(f"<{label}>\t{label}\n" for label in doc.labels)
                target.with_suffix(".tsv").write_bytes(lines.encode())
    return count


def _file_name(id_: str) -> str:
    name = quote(id_, safe=" ()[]{}+,;=@&!'^~#$")
    if not name or len(name.encode()) > _LONGEST_NAME:
        raise DataError(f"id {id_[:60]!r} is empty or too long for a file name")
    return name
