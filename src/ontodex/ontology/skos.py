"""Read and write SKOS in Turtle, N-Triples, RDF/XML and JSON-LD, with pyoxigraph.

pyoxigraph fetches nothing, but it expands entities of RDF/XML. So an RDF/XML file is read through
`io.xml`, which removes all declarations. A JSON-LD file with remote contexts is refused.

Concepts are the resources of type skos:Concept, or of a class that the file declares as a subclass
of it. A deprecated resource that is no longer a skos:Concept (STW has such) is not a concept; its
id is kept as retired, with its successor. The language of names without a tag is "und".
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

from ontodex.errors import DataError, require
from ontodex.io import xml
from ontodex.io.files import open_bytes
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.json_ld import check_contexts
from ontodex.types import Ontology

SYNTAXES = {
    "turtle": "TURTLE",
    "ntriples": "N_TRIPLES",
    "rdfxml": "RDF_XML",
    "jsonld": "JSON_LD",
}
# A grouping into more parts than this does not describe the top of the hierarchy.
MAX_GROUPS = 50
# Longer ones are given once, as a prefix or a language for the whole file, and repeated in memory.
MAX_IRI, MAX_LANGUAGE = 2_000, 100

_SKOS = "http://www.w3.org/2004/02/skos/core#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_TERMS = "http://purl.org/dc/terms/"
_PREFIXES = {"skos": _SKOS, "owl": _OWL, "dcterms": _TERMS}
# Ids that are not IRIs (D000001) are written with this prefix, and read back without it.
_OWN = "urn:ontodex:concept:"
_SCHEME = "urn:ontodex:scheme"
_GROUP = "urn:ontodex:category:"

# predicate -> our name for it; all others are ignored
_PREDICATES = {
    _RDF + "type": "type",
    _RDFS + "subClassOf": "subclass",
    _RDFS + "label": "label",
    _OWL + "deprecated": "deprecated",
    _TERMS + "isReplacedBy": "replaced_by",
    _TERMS + "title": "title",
    **{
        _SKOS + name: name
        for name in (
            *("prefLabel", "altLabel", "hiddenLabel", "broader", "narrower", "notation"),
            *("definition", "scopeNote", "inScheme", "topConceptOf", "hasTopConcept", "member"),
            "exactMatch",
        )
    },
}
# predicates with text values; those of the others are resources
_TEXTS = {
    *("label", "deprecated", "title", "prefLabel", "altLabel", "hiddenLabel"),
    *("notation", "definition", "scopeNote"),
}
_POSITION = re.compile(r"^Parser error at line \d+ (?:between columns \d+ and|column) \d+: ")


def read(path: Path, syntax: str = "turtle") -> Ontology:
    """Read the SKOS concepts of a file."""
    facts = _Statements()
    for subject, predicate, value in _read_statements(path, syntax):
        facts.add(subject, predicate, value)
    concepts = facts.concepts()
    facts.find_groups(concepts)
    if not concepts:
        seen = sorted({kind for kinds in facts["type"].values() for kind in kinds})[:5]
        raise DataError(
            "has no skos:Concept; "
            + (f"its resources are of type {', '.join(seen)}" if seen else "nothing has a type"),
            path=path,
            hint="an OWL ontology can be converted to OBO, for example with robot convert",
        )
    retired = {
        label: next(iter(facts.of(label, "replaced_by")), "")
        for label in facts["deprecated"]
        if label not in concepts and facts.is_deprecated(label)
    }
    return build_ontology(
        (facts.concept(label) for label in concepts),
        categories=facts.categories(concepts),
        retired=retired,
        splits={label: new for label, new in facts["replaced_by"].items() if len(new) > 1},
        group_names=facts.group_names(),
        title=facts.title(),
    )


class _Statements:
    """Statements of a file by predicate and subject; a literal is (language, text)."""

    def __init__(self) -> None:
        self._by: dict[str, dict[str, list[Any]]] = {name: {} for name in _PREDICATES.values()}
        self._schemes: set[str] = set()  # a single scheme distinguishes no concepts, so it is empty
        self._types: set[str] = set()

    def add(self, subject: str, predicate: str, value: Any) -> None:
        if predicate == "narrower":
            subject, predicate, value = value, "broader", subject
        elif predicate == "hasTopConcept":
            subject, predicate, value = value, "topConceptOf", subject
        self._by[predicate].setdefault(subject, []).append(value)

    def __getitem__(self, predicate: str) -> dict[str, list[Any]]:
        return self._by[predicate]

    def of(self, label: str, predicate: str) -> list[Any]:
        return self._by[predicate].get(label, [])

    def is_deprecated(self, label: str) -> bool:
        return any(text in ("true", "1") for _, text in self.of(label, "deprecated"))

    def concepts(self) -> dict[str, None]:
        """Return the ids of the concepts, in file order."""
        narrower: dict[str, list[str]] = {}
        for kind, above in self["subclass"].items():
            for general in above:
                narrower.setdefault(general, []).append(kind)
        below, waiting = set[str](), [_SKOS + "Concept"]
        while waiting:
            for kind in narrower.get(waiting.pop(), ()):
                if kind not in below:
                    below.add(kind)
                    waiting.append(kind)
        return {
            label: None
            for label, kinds in self["type"].items()
            if _SKOS + "Concept" in kinds
            or (below.intersection(kinds) and not self.is_deprecated(label))
        }

    def find_groups(self, concepts: Collection[str]) -> None:
        """Find the schemes and classes that distinguish concepts."""
        schemes = {name for label in concepts for name in self.of(label, "inScheme")}
        types = {kind for label in concepts for kind in self.of(label, "type")}
        self._schemes = schemes if 1 < len(schemes) <= MAX_GROUPS else set()
        self._types = types - {_SKOS + "Concept"} if len(types) <= MAX_GROUPS else set()

    def group_names(self) -> dict[str, str]:
        """Return the names of the schemes and classes."""
        return {group: self.name(group) for group in sorted(self._schemes | self._types)}

    def title(self) -> str:
        """Return the title of the file's concept scheme, if it has one scheme and this a title."""
        schemes = [one for one, kinds in self["type"].items() if _SKOS + "ConceptScheme" in kinds]
        title = self.name(schemes[0]) if len(schemes) == 1 else ""
        return "" if title in schemes else title

    def concept(self, label: str) -> Concept:
        names: dict[str, str] = {}
        synonyms: dict[str, list[str]] = {}
        for language, text in self.of(label, "prefLabel") or self.of(label, "label"):
            if names.setdefault(language, text) != text:
                synonyms.setdefault(language, []).append(text)
        for kind in ("altLabel", "hiddenLabel"):
            for language, text in self.of(label, kind):
                synonyms.setdefault(language, []).append(text)
        notes = self.of(label, "definition") or self.of(label, "scopeNote")
        by_language = dict(reversed(notes))
        return Concept(
            id=label,
            names=names,
            synonyms=synonyms,
            parents=self.of(label, "broader"),
            definition=_choose_text(notes),
            translated_definitions=by_language if len(by_language) > 1 else {},
            schemes=[name for name in self.of(label, "inScheme") if name in self._schemes],
            types=[kind for kind in self.of(label, "type") if kind in self._types],
            notation=_choose_text(self.of(label, "notation")),
            deprecated=self.is_deprecated(label),
            replaced_by=next(iter(self.of(label, "replaced_by")), ""),
            exact_matches=self.of(label, "exactMatch"),
        )

    def name(self, label: str) -> str:
        """Return the name of a scheme, a collection or a concept."""
        for kind in ("prefLabel", "label", "title"):
            if texts := self.of(label, kind):
                return _choose_text(texts)
        return label

    def categories(self, concepts: Collection[str]) -> dict[str, list[str]]:
        """Return the first declared grouping of the concepts into a few categories.

        Tried in this order: schemes by their top concepts, the top concepts of one scheme, schemes
        by their concepts, collections.
        """
        tops = _invert(self["topConceptOf"], concepts)
        schemes = _invert(self["inScheme"], concepts)
        collections = {
            name: heads
            for name, members in self["member"].items()
            if (heads := [label for label in members if label in concepts])
        }
        if len(tops) == 1:
            tops = {top: [top] for heads in tops.values() for top in heads}
        fewest = 2
        for groups in (tops, schemes, collections):
            if groups is collections:
                fewest = 1  # a collection has no other purpose than grouping
            if fewest <= len(groups) <= MAX_GROUPS:
                named: dict[str, list[str]] = {}
                for label, heads in groups.items():
                    named.setdefault(self.name(label), []).extend(heads)
                return named
        return {}


def _invert(facts: dict[str, list[str]], concepts: Collection[str]) -> dict[str, list[str]]:
    """Return group -> its concepts, from concept -> its groups."""
    groups: dict[str, list[str]] = {}
    for label, own in facts.items():
        if label in concepts:
            for group in dict.fromkeys(own):
                groups.setdefault(group, []).append(label)
    return groups


def _choose_text(texts: Iterable[tuple[str, str]]) -> str:
    """Return the English one of several texts, else the first."""
    texts = list(texts)
    return next(
        (text for language, text in texts if language == "en"), texts[0][1] if texts else ""
    )


def _read_statements(path: Path, syntax: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (subject, our name of the predicate, value) for the predicates we use."""
    ox = require("pyoxigraph", extra="ontology", purpose=f"reading {syntax}")
    literal, blank, known = ox.Literal, ox.BlankNode, _PREDICATES.get
    with _open_source(path, syntax) as source:
        try:
            for quad in ox.parse(source, format=getattr(ox.RdfFormat, SYNTAXES[syntax])):
                predicate, value = known(quad.predicate.value), quad.object
                # Also those of no use: a long prefix makes every name that has it as long.
                for node in (quad.subject, quad.predicate, value):
                    if not isinstance(node, literal) and len(node.value) > MAX_IRI:
                        raise _long_error(f"an IRI of {len(node.value):,} characters", path)
                if predicate is None:
                    continue
                subject = _get_id(quad.subject, blank)
                if isinstance(value, literal):
                    if predicate in _TEXTS:
                        language = value.language or "und"
                        if len(language) > MAX_LANGUAGE:
                            raise _long_error(f"a language of {len(language):,} letters", path)
                        yield subject, predicate, (language, value.value)
                elif predicate not in _TEXTS:
                    yield subject, predicate, _get_id(value, blank)
        except SyntaxError as error:
            line = error.lineno or getattr(source, "line", None)
            raise DataError(
                f"not {syntax} ({_POSITION.sub('', error.msg)})", path=path, line=line
            ) from error


def _long_error(what: str, path: Path) -> DataError:
    return DataError(
        f"has {what}; the longest are {MAX_IRI:,} for an IRI and {MAX_LANGUAGE} for a language",
        path=path,
    )


def _get_id(node: Any, blank: type) -> str:
    value: str = node.value
    if isinstance(node, blank):
        return f"_:{value}"
    return unquote(value.removeprefix(_OWN)) if value.startswith(_OWN) else value


def _open_source(path: Path, syntax: str) -> IO[bytes]:
    if syntax == "rdfxml":
        return _LineStream(xml.read_simple_blocks(path))  # type: ignore[return-value]
    if syntax == "jsonld":
        with open_bytes(path) as file:
            data = file.read()
        check_contexts(data, path)
        return io.BytesIO(data)
    return open_bytes(path)


class _LineStream(io.RawIOBase):
    """A stream of bytes read one line at a time, so that `line` is the line of the parser."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._lines = (line for block in blocks for line in block.splitlines(keepends=True))
        self._rest = b""
        self.line = 1
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self.line += self._ended
            self._rest = next(self._lines, b"")
            self._ended = self._rest.endswith(b"\n")
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def write(ontology: Ontology, file: IO[bytes], syntax: str = "turtle") -> None:
    """Write names, synonyms, parents, definitions, notations, matches, deprecated and retired ids.

    Categories are written as collections. Tree numbers are left out.
    """
    ox = require("pyoxigraph", extra="ontology", purpose=f"writing {syntax}")
    try:
        ox.serialize(
            _make_triples(ontology, ox),
            file,
            format=getattr(ox.RdfFormat, SYNTAXES[syntax]),
            prefixes=_PREFIXES,
        )
    except ValueError as error:
        raise DataError(f"cannot be written as {syntax}: {error}") from error


def _make_triples(ontology: Ontology, ox: Any) -> Iterator[Any]:
    iri = ox.NamedNode
    a, true = iri(_RDF + "type"), ox.Literal(True)
    skos = {name: iri(iri_) for iri_, name in _PREDICATES.items()}
    scheme = iri(_SCHEME)
    yield ox.Triple(scheme, a, iri(_SKOS + "ConceptScheme"))
    kind = iri(_SKOS + "Concept")
    if ontology.title:
        yield ox.Triple(scheme, skos["title"], ox.Literal(ontology.title))
    for group, name in ontology.group_names.items():
        yield ox.Triple(iri(group), skos["label"], ox.Literal(name))
    for row, label in enumerate(ontology.ids):
        node = _make_node(label, ox)
        for type_ in (kind, *map(iri, ontology.types.get(label, ()))):
            yield ox.Triple(node, a, type_)
        for name in map(iri, ontology.schemes.get(label, (_SCHEME,))):
            yield ox.Triple(node, skos["inScheme"], name)
        for name, text in _make_texts(ontology, row, ox):
            yield ox.Triple(node, skos[name], text)
        for parent in ontology.parents_of(label):
            yield ox.Triple(node, skos["broader"], _make_node(parent, ox))
    for label in sorted(ontology.deprecated):
        yield ox.Triple(_make_node(label, ox), skos["deprecated"], true)
    successors = {label: (new,) for label, new in ontology.replaced_by.items()}
    for predicate, links in (
        ("replaced_by", {**successors, **ontology.splits}),
        ("exactMatch", ontology.exact_matches),
    ):
        for label, others in sorted(links.items()):
            for other in others:
                yield ox.Triple(_make_node(label, ox), skos[predicate], _make_node(other, ox))
    for name, heads in ontology.categories.items():
        group = iri(_GROUP + quote(name, safe=""))
        yield ox.Triple(group, a, iri(_SKOS + "Collection"))
        yield ox.Triple(group, skos["prefLabel"], ox.Literal(name))
        for head in heads:
            yield ox.Triple(group, skos["member"], _make_node(head, ox))


def _make_texts(ontology: Ontology, row: int, ox: Any) -> Iterator[tuple[str, Any]]:
    """Yield (predicate, literal) for all texts of a concept."""
    label = ontology.ids[row]
    for language, name in ontology.names_of(label).items():
        yield "prefLabel", _make_literal(name, language, ox)
    for language, synonyms in ontology.synonyms_by_language(label).items():
        for synonym in synonyms:
            yield "altLabel", _make_literal(synonym, language, ox)
    if label in ontology.notations:
        yield "notation", ox.Literal(ontology.notations[label])
    translated = {
        language: texts[label]
        for language, texts in ontology.translated_definitions.items()
        if label in texts
    }
    if label in ontology.definitions and not translated:
        yield "definition", ox.Literal(ontology.definitions[label])
    for language, text in translated.items():
        yield "definition", _make_literal(text, language, ox)


def _make_literal(text: str, language: str, ox: Any) -> Any:
    return ox.Literal(text) if language == "und" else ox.Literal(text, language=language)


def _make_node(label: str, ox: Any) -> Any:
    """Return the id as a node; an id that is not an IRI gets our prefix."""
    if not label.startswith(("_:", _OWN)):
        try:
            return ox.NamedNode(label)
        except ValueError:
            pass
    return ox.NamedNode(_OWN + quote(label, safe=""))
