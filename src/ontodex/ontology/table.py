"""Read and write plain tables: JSON, Annif vocabularies (CSV, TSV), edge lists, label lists.

The JSON format of ontodex has one concept per line and everything that an Ontology has. The same
ontology always gives the same bytes. It is read as a stream:

    {"ontodex": "ontology", "version": 1, "categories": {...}, "retired": {...}, "concepts": [
    {"id": "D000003", "names": {"en": "Abattoirs"}, "synonyms": {...}, "parents": ["D005518"]},
    ...
    ]}
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ontodex.errors import DataError
from ontodex.io.files import open_bytes, read_lines
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.json_fields import FIELDS, is_text
from ontodex.types import Ontology

VERSION = 1
MAX_CELLS = 100_000_000  # of an Annif CSV, which has a cell for every concept and language
UNDETERMINED = "und"  # language of names in files without language tags
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_OPENING = '"concepts": ['
# Fields of a record of a concept, by their names in `Concept`, which has not the first two.
_CONCEPT_FIELDS = {
    "label": "label", "alt_labels": "alt_labels", "names": "names", "synonyms": "synonyms",
    "parents": "parents", "definition": "definition", "definitions": "translated_definitions",
    "notation": "notation", "deprecated": "deprecated", "replaced_by": "replaced_by",
    "positions": "positions", "exact_matches": "exact_matches", "schemes": "schemes",
    "types": "types",
}  # fmt: skip
_TEXT_FIELDS = ("title", "abstract", "abstractText", "body", "text")  # of documents, not concepts


class _RepeatingObject(dict[str, Any]):
    """A JSON object with repeated keys; `pairs` has all of them."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _RepeatingObject(pairs)


_JSON = json.JSONDecoder(object_pairs_hook=_make_object)


def read_json(path: Path) -> Ontology:
    """Read the JSON format of ontodex, {id: {label, alt_labels, parents}}, or a list of objects."""
    with open_bytes(path) as file:
        first = file.readline(10_000_000)
        if first.rstrip().endswith(_OPENING.encode()):
            return _read_saved(path)
        rest = file.read()
    if rest:
        _refuse_documents(_parse_alone(first), path)
    content = _parse_json(first + rest, path, 1)
    _refuse_documents(content, path)
    if isinstance(content, dict) and isinstance(content.get("concepts"), list):
        header, records = content, content["concepts"]
    elif isinstance(content, dict):
        pairs = content.pairs if isinstance(content, _RepeatingObject) else content.items()
        header, records = {}, [_add_id(key, record) for key, record in pairs]
    elif isinstance(content, list):
        header, records = {}, content
    else:
        raise DataError(f"a JSON {type(content).__name__} has no concepts", path=path)
    return _build(((None, record) for record in records), header, path)


def _parse_alone(line: bytes) -> Any:
    """Parse one line of JSON; return None if it continues on the next line."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _refuse_documents(content: Any, path: Path) -> None:
    """Raise a DataError if this is a document, or the first one of a JSON-lines corpus."""
    if not isinstance(content, dict) or "concepts" in content:  # those may have a title
        return
    if any(is_text(content.get(name)) for name in _TEXT_FIELDS):
        raise DataError(
            "looks like a corpus, not an ontology: it starts with a document that has "
            + ", ".join(content),
            path=path,
            hint="the ontology (--ontology) must be a file of concepts with ids and names; "
            "in a corpus each document needs an id",
        )


def _check_once(value: Any, path: Path, line: int | None = None) -> Any:
    """Return the value; raise a DataError for an object with a repeated key."""
    if isinstance(value, _RepeatingObject):
        (name, _), *_ = Counter(name for name, _ in value.pairs).most_common(1)
        raise DataError(
            f"{name!r} is given twice in one object", path=path, line=line, hint="keep one of them"
        )
    return value


def _add_id(key: str, record: Any) -> Any:
    known = isinstance(record, dict) and ("id" in record or "concept_id" in record)
    if known or not isinstance(record, dict) or isinstance(record, _RepeatingObject):
        return record  # a repeated key is refused later, by name
    return {"id": key, **record}


def _read_saved(path: Path) -> Ontology:
    """Read the JSON format of ontodex line by line."""
    lines = read_lines(path)
    number, first = next(lines)
    header = _parse_json(first + "]}", path, number)
    return _build(_parse_lines(lines, path), header, path)


def _parse_lines(lines: Iterable[tuple[int, str]], path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        if line == "]}":
            return
        yield number, _parse_json(line.removesuffix(","), path, number)
    raise DataError("is cut off: its last line must be ']}'", path=path, hint="create it again")


def _parse_json(text: str | bytes, path: Path, line: int) -> Any:
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        value = _JSON.decode(text)
        if _SURROGATE.search(text):
            # Fails for half a pair, which no file can store.
            _dump_json(value.pairs if isinstance(value, _RepeatingObject) else value).encode()
        return value
    except json.JSONDecodeError as error:
        where = line + error.lineno - 1
        raise DataError(f"not JSON ({error.msg})", path=path, line=where) from error
    except UnicodeError as error:
        raise DataError(f"not UTF-8 ({error})", path=path, line=line) from error
    except ValueError as error:  # a number of thousands of digits
        raise DataError(f"JSON that cannot be read ({error})", path=path, line=line) from error
    except RecursionError as error:
        raise DataError("JSON is nested too deeply", path=path, line=line) from error


def _build(
    records: Iterable[tuple[int | None, Any]], header: Mapping[str, Any], path: Path
) -> Ontology:
    if _check_once(header, path).get("version", VERSION) != VERSION:
        raise DataError(
            f"has version {header['version']!r}; this release of ontodex reads version {VERSION}",
            path=path,
        )
    ontology = build_ontology(
        (_make_concept(record, path, number) for number, record in records),
        categories=_get_field(header, "categories", path),
        retired=_get_field(header, "retired", path),
        splits=_get_field(header, "splits", path),
        group_names=_get_field(header, "group_names", path),
        title=_get_field(header, "title", path),
        problems=_get_field(header, "problems", path),
    )
    if not len(ontology):
        raise DataError("has no concepts", path=path)
    return ontology


def _make_concept(record: Any, path: Path, line: int | None) -> Concept:
    """Make a concept from a JSON object with our names of fields or those of EURLEX57K."""
    if not isinstance(record, dict):
        raise DataError(f"a concept must be an object, not {record!r:.40}", path=path, line=line)
    label = _check_once(record, path, line).get("id", record.get("concept_id"))
    if not isinstance(label, str | int) or label == "":
        raise DataError(f"no id; this object has {sorted(record)}", path=path, line=line)
    # Most records have two or three fields, so only those are looked at.
    own: dict[str, Any] = {
        _CONCEPT_FIELDS[field]: _get_field(record, field, path, line)
        for field in record
        if field in _CONCEPT_FIELDS
    }
    if name := own.pop("label", ""):
        own["names"] = {UNDETERMINED: name, **own.get("names", {})}
    if synonyms := own.pop("alt_labels", ()):
        own["synonyms"] = {UNDETERMINED: synonyms, **own.get("synonyms", {})}
    if "parents" in own:
        own["parents"] = [str(parent) for parent in own["parents"]]
    return Concept(str(label), **own)


def _get_field(record: Mapping[str, Any], name: str, path: Path, line: int | None = None) -> Any:
    """Return a field after a check of its type, or its empty value if it is missing or null."""
    value, shape = record.get(name), FIELDS[name]
    if value is None:
        return shape.empty
    if not shape.fits(value):
        raise DataError(
            f"{name!r} must be {shape.words}, not {_dump_json(value):.60}", path=path, line=line
        )
    return _check_once(value, path, line)


def write_json(ontology: Ontology, file: IO[bytes]) -> None:
    """Write the JSON format of ontodex; nothing is left out."""
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
        **({"group_names": dict(ontology.group_names)} if ontology.group_names else {}),
        **({"title": ontology.title} if ontology.title else {}),
        "problems": ontology.problems,
        **({"splits": dict(ontology.splits)} if ontology.splits else {}),
    }
    file.write(f"{_dump_json(header)[:-1]}, {_OPENING}\n".encode())
    for row in range(len(ontology)):
        ending = ",\n" if row < len(ontology) - 1 else "\n"
        file.write((_dump_json(_make_record(ontology, row)) + ending).encode())
    file.write(b"]}\n")


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _make_record(ontology: Ontology, row: int) -> dict[str, Any]:
    label = ontology.ids[row]
    record = {
        "id": label,
        "names": ontology.names_of(label),
        "synonyms": ontology.synonyms_by_language(label),
        "parents": ontology.parents_of(label),
        "definition": ontology.definitions.get(label),
        "definitions": {
            language: texts[label]
            for language, texts in ontology.translated_definitions.items()
            if label in texts
        },
        "notation": ontology.notations.get(label),
        "deprecated": label in ontology.deprecated,
        "replaced_by": ontology.replaced_by.get(label),
        "positions": ontology.positions[row] if ontology.positions is not None else (),
        "exact_matches": ontology.exact_matches.get(label),
        "schemes": ontology.schemes.get(label),
        "types": ontology.types.get(label),
    }
    return {name: value for name, value in record.items() if value}


def read_annif_csv(path: Path) -> Ontology:
    """Read rows with the columns `uri`, `label_en`, `label_fi` ... and optionally `notation`."""
    rows = csv.reader((line + "\n" for _, line in read_lines(path)), strict=True)
    return build_ontology(_parse_csv(rows, path))


def _parse_csv(rows: Any, path: Path) -> Iterator[Concept]:
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
                id=_strip_brackets(fields["uri"]),
                names={tag: row[column] for column, tag in languages.items() if row[column]},
                notation=fields.get("notation", ""),
            )
    except csv.Error as error:
        raise DataError(f"not CSV ({error})", path=path, line=rows.line_num) from error


def _strip_brackets(uri: str) -> str:
    return uri.removeprefix("<").removesuffix(">")


def read_annif_tsv(path: Path) -> Ontology:
    """Read rows of `<uri>`, label and optionally notation."""
    return build_ontology(_parse_tsv(path))


def _parse_tsv(path: Path) -> Iterator[Concept]:
    for number, line in read_lines(path):
        if line:
            uri, *rest = line.split("\t")
            if len(rest) not in (1, 2) or not _strip_brackets(uri):
                raise DataError(
                    f"{len(rest) + 1} columns; a row has <uri>, label and optionally notation",
                    path=path,
                    line=number,
                )
            label, notation = (*rest, "")[:2]
            yield Concept(
                _strip_brackets(uri), {UNDETERMINED: label} if label else {}, notation=notation
            )


def write_annif_csv(ontology: Ontology, file: IO[bytes]) -> None:
    """Write ids, notations and preferred names in every language.

    Deprecated concepts are left out. Annif vocabularies have no synonyms and no hierarchy.
    """
    languages = list(ontology.names)
    if len(languages) * len(ontology) > MAX_CELLS:
        raise DataError(
            f"{len(ontology):,} concepts in {len(languages):,} languages are more than "
            f"{MAX_CELLS:,} cells of a CSV table",
            hint="write another format, for example .json or .ttl",
        )
    file.write(_format_csv_row(["uri", "notation", *(f"label_{tag}" for tag in languages)]))
    for row, label in enumerate(ontology.ids):
        if label not in ontology.deprecated:
            names = [ontology.names[tag][row] for tag in languages]
            file.write(_format_csv_row([label, ontology.notations.get(label, ""), *names]))


def _format_csv_row(values: Iterable[str]) -> bytes:
    quoted = (
        '"' + value.replace('"', '""') + '"' if _needs_quotes(value) else value for value in values
    )
    return (",".join(quoted) + "\n").encode()


def _needs_quotes(value: str) -> bool:
    return any(character in value for character in '",\r\n')


def write_annif_tsv(ontology: Ontology, file: IO[bytes]) -> None:
    """Write ids, names in the default language and notations, without deprecated concepts."""
    for label in ontology.ids:
        if label not in ontology.deprecated:
            columns = [f"<{label}>", ontology.name(label)]
            if label in ontology.notations:
                columns.append(ontology.notations[label])
            file.write(_format_tsv_row(columns))


def _format_tsv_row(columns: Iterable[str]) -> bytes:
    """Join columns by tabs; a tab or line end inside a column becomes a space."""
    return ("\t".join(" ".join(c.splitlines()).replace("\t", " ") for c in columns) + "\n").encode()


def read_edges(path: Path) -> Ontology:
    """Read lines of parent and child, separated by a tab or spaces.

    An empty parent adds a child without a parent.
    """
    parents: dict[str, list[str]] = {}
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("# "):  # an id may start with # itself
            continue
        ends = line.split("\t") if "\t" in line else line.split()
        if len(ends) != 2 or not ends[1]:
            raise DataError(f"expected 'parent child', not {line[:40]!r}", path=path, line=number)
        parent, child = ends
        if parent:
            parents.setdefault(parent, [])
            parents.setdefault(child, []).append(parent)
        else:
            parents.setdefault(child, [])
    return build_ontology(Concept(label, parents=above) for label, above in parents.items())


def write_edges(ontology: Ontology, file: IO[bytes]) -> None:
    """Write lines of parent, tab, child: the graph and nothing else."""
    for label in ontology.ids:
        alone = not ontology.parents_of(label) and not ontology.children_of(label)
        for parent in ontology.parents_of(label) or ([""] if alone else []):
            file.write(_format_tsv_row([parent, label]))


def read_labels(path: Path) -> Ontology:
    """Read one concept per line, without a hierarchy; the line is its id and its name."""
    return build_ontology(
        Concept(line.strip(), {UNDETERMINED: line.strip()})
        for _, line in read_lines(path)
        if line.strip()
    )
