"""Plain tables: JSON, Annif's vocabulary CSV and TSV, edge lists, label lists.

Our own saved form is JSON with one concept a line, everything an Ontology holds, and the same bytes
for the same ontology; it is read as a stream:

    {"ontodex": "ontology", "version": 1, "categories": {...}, "retired": {...}, "concepts": [
    {"id": "D000003", "names": {"en": "Abattoirs"}, "synonyms": {...}, "parents": ["D005518"]},
    ...
    ]}
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ontodex.errors import DataError
from ontodex.files import open_bytes, read_lines
from ontodex.ontology.graph import Concept, build
from ontodex.types import Ontology

VERSION = 1
UNDETERMINED = "und"  # the language of names in files that state none
_OPENING = '"concepts": ['
_TEXT_FIELDS = ("title", "abstract", "abstractText", "body", "text")  # of documents, not concepts


class _Repeating(dict[str, Any]):
    """A JSON object that gives some key more than once; `pairs` has every one of them."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeating(pairs)


_JSON = json.JSONDecoder(object_pairs_hook=_object)


def read_json(path: Path) -> Ontology:
    """Concepts of our saved form, of {id: {label, alt_labels, parents}}, or a list of objects."""
    with open_bytes(path) as file:
        first = file.readline(10_000_000)
        if first.rstrip().endswith(_OPENING.encode()):
            return _saved(path)
        rest = file.read()
    if rest:
        _refuse_documents(_alone(first), path)
    content = _parsed(first + rest, path, 1)
    _refuse_documents(content, path)
    if isinstance(content, dict) and isinstance(content.get("concepts"), list):
        header, records = content, content["concepts"]
    elif isinstance(content, dict):
        pairs = content.pairs if isinstance(content, _Repeating) else content.items()
        header, records = {}, [_with_id(key, record) for key, record in pairs]
    elif isinstance(content, list):
        header, records = {}, content
    else:
        raise DataError(f"a JSON {type(content).__name__} holds no concepts", path=path)
    return _from_records(((None, record) for record in records), header, path)


def _alone(line: bytes) -> Any:
    """What a line is by itself; None where its JSON goes on in the next."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _refuse_documents(content: Any, path: Path) -> None:
    """Say so where this is one document, or the first of a corpus with one a line."""
    if not isinstance(content, dict) or "concepts" in content:  # those may have a title
        return
    if any(_is_text(content.get(name)) for name in _TEXT_FIELDS):
        raise DataError(
            "looks like a corpus, not an ontology: it begins with a document that has "
            + ", ".join(content),
            path=path,
            hint="as the ontology (--ontology) give a file of concepts, with their ids and names; "
            "in a corpus each document has an id",
        )


def _once(value: Any, path: Path, line: int | None = None) -> Any:
    """The value, unless it is an object in which a field would hide another of the same name."""
    if isinstance(value, _Repeating):
        (name, _), *_ = Counter(name for name, _ in value.pairs).most_common(1)
        raise DataError(
            f"{name!r} is given twice in one object", path=path, line=line, hint="keep one of them"
        )
    return value


def _with_id(key: str, record: Any) -> Any:
    known = isinstance(record, dict) and ("id" in record or "concept_id" in record)
    if known or not isinstance(record, dict) or isinstance(record, _Repeating):
        return record  # the last is refused with the name of what it repeats
    return {"id": key, **record}


def _saved(path: Path) -> Ontology:
    """Our own form, a line at a time."""
    lines = read_lines(path)
    number, first = next(lines)
    header = _parsed(first + "]}", path, number)
    return _from_records(_lines(lines, path), header, path)


def _lines(lines: Iterable[tuple[int, str]], path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        if line == "]}":
            return
        yield number, _parsed(line.removesuffix(","), path, number)
    raise DataError("ends before its last line, which is ']}'", path=path, hint="make it again")


def _parsed(text: str | bytes, path: Path, line: int) -> Any:
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")  # as json.loads does
        return _JSON.decode(text)
    except json.JSONDecodeError as error:
        where = line + error.lineno - 1
        raise DataError(f"not JSON ({error.msg})", path=path, line=where) from error
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 ({error.reason})", path=path) from error
    except RecursionError as error:
        raise DataError("JSON nested too deeply to hold concepts", path=path, line=line) from error


def _from_records(
    records: Iterable[tuple[int | None, Any]], header: Mapping[str, Any], path: Path
) -> Ontology:
    if _once(header, path).get("version", VERSION) != VERSION:
        raise DataError(
            f"is of version {header['version']!r}; this ontodex reads version {VERSION}", path=path
        )
    ontology = build(
        (_concept(record, path, number) for number, record in records),
        categories=_field(header, "categories", path),
        retired=_field(header, "retired", path),
        problems=_field(header, "problems", path),
    )
    if not len(ontology):
        raise DataError("holds no concepts", path=path)
    return ontology


def _concept(record: Any, path: Path, line: int | None) -> Concept:
    """A concept from a JSON object, by our names for the fields or those of EuroVoc's file."""
    if not isinstance(record, dict):
        raise DataError(f"a concept must be an object, not {record!r:.40}", path=path, line=line)
    label = _once(record, path, line).get("id", record.get("concept_id"))
    if not isinstance(label, str | int) or label == "":
        raise DataError(f"no id; this object has {sorted(record)}", path=path, line=line)
    names: dict[str, str] = _field(record, "names", path, line)
    synonyms: dict[str, list[str]] = _field(record, "synonyms", path, line)
    if name := _field(record, "label", path, line):
        names = {UNDETERMINED: name, **names}
    if others := _field(record, "alt_labels", path, line):
        synonyms = {UNDETERMINED: others, **synonyms}
    return Concept(
        id=str(label),
        names=names,
        synonyms=synonyms,
        parents=[str(parent) for parent in _field(record, "parents", path, line)],
        definition=_field(record, "definition", path, line),
        notation=_field(record, "notation", path, line),
        deprecated=_field(record, "deprecated", path, line),
        replaced_by=_field(record, "replaced_by", path, line),
        positions=_field(record, "positions", path, line),
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


@dataclass(frozen=True)
class _Shape:
    """What a JSON field may hold: in words, as a question, and what a missing one stands for."""

    words: str
    fits: Callable[[Any], bool]
    empty: Any


_TEXT = _Shape("a text", _is_text, "")
_TEXTS = _Shape("a list of texts", _are_texts, ())
_IDS = _Shape(
    "a list of ids",
    lambda value: isinstance(value, list) and all(isinstance(item, str | int) for item in value),
    (),
)
_FLAG = _Shape("true or false", lambda value: isinstance(value, bool), False)
_TEXT_BY_KEY = _Shape(
    "an object of texts",
    lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    {},
)
_TEXTS_BY_KEY = _Shape(
    "an object of lists of texts",
    lambda value: isinstance(value, dict) and all(map(_are_texts, value.values())),
    {},
)
_FIELDS = {
    "label": _TEXT,
    "alt_labels": _TEXTS,
    "names": _TEXT_BY_KEY,
    "synonyms": _TEXTS_BY_KEY,
    "parents": _IDS,
    "definition": _TEXT,
    "notation": _TEXT,
    "deprecated": _FLAG,
    "replaced_by": _TEXT,
    "positions": _TEXTS,
    "categories": _TEXTS_BY_KEY,
    "retired": _TEXT_BY_KEY,
    "problems": _TEXTS,
}


def _field(record: Mapping[str, Any], name: str, path: Path, line: int | None = None) -> Any:
    """A field that has the shape it should, or its empty value where it is missing or null."""
    value, shape = record.get(name), _FIELDS[name]
    if value is None:
        return shape.empty
    if not shape.fits(value):
        raise DataError(
            f"{name!r} must be {shape.words}, not {_dump(value):.60}", path=path, line=line
        )
    return _once(value, path, line)


def write_json(ontology: Ontology, file: IO[bytes]) -> None:
    """Our own form: nothing is lost."""
    retired = {
        label: ontology.replaced_by.get(label, "")
        for label in sorted(ontology.deprecated)
        if label not in ontology
    }
    header: dict[str, Any] = {
        "ontodex": "ontology",
        "version": VERSION,
        "categories": dict(ontology.categories),
        "retired": retired,
        "problems": ontology.problems,
    }
    file.write(f"{_dump(header)[:-1]}, {_OPENING}\n".encode())
    for row in range(len(ontology)):
        ending = ",\n" if row < len(ontology) - 1 else "\n"
        file.write((_dump(_record(ontology, row)) + ending).encode())
    file.write(b"]}\n")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _record(ontology: Ontology, row: int) -> dict[str, Any]:
    label = ontology.ids[row]
    record = {
        "id": label,
        "names": {tag: own[row] for tag, own in ontology.names.items() if own[row]},
        "synonyms": {tag: own[row] for tag, own in ontology.synonyms.items() if own[row]},
        "parents": ontology.parents_of(label),
        "definition": ontology.definitions.get(label),
        "notation": ontology.notations.get(label),
        "deprecated": label in ontology.deprecated,
        "replaced_by": ontology.replaced_by.get(label),
        "positions": ontology.positions[row] if ontology.positions is not None else (),
    }
    return {name: value for name, value in record.items() if value}


def read_annif_csv(path: Path) -> Ontology:
    """Rows under a header with `uri`, perhaps `notation`, and `label_en`, `label_fi` ..."""
    rows = csv.reader((line + "\n" for _, line in read_lines(path)), strict=True)
    return build(_of_csv(rows, path))


def _of_csv(rows: Any, path: Path) -> Iterator[Concept]:
    try:
        header: list[str] = next(rows, [])
        if "uri" not in header:
            raise DataError(f"no column 'uri' among {header}", path=path, line=1)
        languages = {
            column: name.removeprefix("label_").lower()
            for column, name in enumerate(header)
            if name.startswith("label_")
        }
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(
                    f"{len(row)} columns, but the header has {len(header)}",
                    path=path,
                    line=rows.line_num,
                )
            fields = dict(zip(header, row, strict=True))
            if not fields["uri"]:
                raise DataError("a row without a uri", path=path, line=rows.line_num)
            yield Concept(
                id=_bare(fields["uri"]),
                names={tag: row[column] for column, tag in languages.items() if row[column]},
                notation=fields.get("notation", ""),
            )
    except csv.Error as error:
        raise DataError(f"not CSV ({error})", path=path, line=rows.line_num) from error


def _bare(uri: str) -> str:
    return uri.removeprefix("<").removesuffix(">")


def read_annif_tsv(path: Path) -> Ontology:
    """Rows of `<uri>`, label and perhaps notation."""
    return build(_of_tsv(path))


def _of_tsv(path: Path) -> Iterator[Concept]:
    for number, line in read_lines(path):
        if line:
            uri, *rest = line.split("\t")
            if len(rest) not in (1, 2) or not _bare(uri):
                raise DataError(
                    f"{len(rest) + 1} columns; a row has <uri>, label and perhaps notation",
                    path=path,
                    line=number,
                )
            label, notation = (*rest, "")[:2]
            yield Concept(_bare(uri), {UNDETERMINED: label} if label else {}, notation=notation)


def write_annif_csv(ontology: Ontology, file: IO[bytes]) -> None:
    """Ids, notations and preferred names in every language, of concepts that are not deprecated;
    Annif's vocabularies have neither synonyms nor a hierarchy."""
    languages = list(ontology.names)
    file.write(_csv_row(["uri", "notation", *(f"label_{tag}" for tag in languages)]))
    for row, label in enumerate(ontology.ids):
        if label not in ontology.deprecated:
            names = [ontology.names[tag][row] for tag in languages]
            file.write(_csv_row([label, ontology.notations.get(label, ""), *names]))


def _csv_row(values: Iterable[str]) -> bytes:
    quoted = ('"' + value.replace('"', '""') + '"' if _odd(value) else value for value in values)
    return (",".join(quoted) + "\n").encode()


def _odd(value: str) -> bool:
    return any(character in value for character in '",\r\n')


def write_annif_tsv(ontology: Ontology, file: IO[bytes]) -> None:
    """Ids, names in the main language and notations, of concepts that are not deprecated."""
    for label in ontology.ids:
        if label not in ontology.deprecated:
            columns = [f"<{label}>", ontology.name(label)]
            if label in ontology.notations:
                columns.append(ontology.notations[label])
            file.write(_tsv_row(columns))


def _tsv_row(columns: Iterable[str]) -> bytes:
    """Columns between tabs; a tab or line end inside one becomes a space."""
    return ("\t".join(" ".join(c.splitlines()).replace("\t", " ") for c in columns) + "\n").encode()


def read_edges(path: Path) -> Ontology:
    """Lines of parent and child, between a tab or spaces; an empty parent names a child alone."""
    parents: dict[str, list[str]] = {}
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("# "):  # an id may begin with # itself
            continue
        ends = line.split("\t") if "\t" in line else line.split()
        if len(ends) != 2 or not ends[1]:
            raise DataError(f"no 'parent child' but {line[:40]!r}", path=path, line=number)
        parent, child = ends
        if parent:
            parents.setdefault(parent, [])
            parents.setdefault(child, []).append(parent)
        else:
            parents.setdefault(child, [])
    return build(Concept(label, parents=above) for label, above in parents.items())


def write_edges(ontology: Ontology, file: IO[bytes]) -> None:
    """Parent, tab, child: the graph and nothing else."""
    for label in ontology.ids:
        alone = not ontology.parents_of(label) and not ontology.children_of(label)
        for parent in ontology.parents_of(label) or ([""] if alone else []):
            file.write(_tsv_row([parent, label]))


def read_labels(path: Path) -> Ontology:
    """One concept a line, without a hierarchy; the line is both its id and its name."""
    return build(
        Concept(line.strip(), {UNDETERMINED: line.strip()})
        for _, line in read_lines(path)
        if line.strip()
    )
