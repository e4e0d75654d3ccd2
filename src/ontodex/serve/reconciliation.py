"""Answers of the reconciliation service (protocol 0.2, that of OpenRefine) about one ontology.

queries    cells of a table           ─ candidates with scores from 0 to 100
suggest    the beginning of a name    ─ concepts, the one type, properties
extend     concepts and properties    ─ columns to add to the table
preview    one concept                ─ a small HTML page
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from ontodex.io.counts import format_count
from ontodex.serve.prediction.concept_view import ConceptView, Json
from ontodex.serve.requests import MAX_SEARCH

CONCEPT = {"id": "http://www.w3.org/2004/02/skos/core#Concept", "name": "Concept"}
SCHEMA = "http://www.w3.org/2004/02/skos/core#"
WHOLE_NAMES = {"id": 100.0, "name": 100.0, "synonym": 95.0}  # scores of complete matches
SIMILAR = 80.0  # score of a name with a typo
DISAGREEMENT = 20.0  # taken off for each property that the candidate does not have

Value = Mapping[str, str]  # {"str": text}, or {"id": label, "name": name}


def _get_texts(*texts: str) -> list[Value]:
    return [{"str": text} for text in texts if text]


def _get_refs(concepts: ConceptView, labels: Sequence[str]) -> list[Value]:
    return [{"id": label, "name": concepts.get_name(label)} for label in labels]


def _get_parents(concepts: ConceptView, label: str) -> list[Value]:
    known = label in concepts.ontology
    return _get_refs(concepts, concepts.ontology.parents_of(label) if known else [])


def _get_synonyms(concepts: ConceptView, label: str) -> list[Value]:
    known = label in concepts.ontology
    return _get_texts(*(concepts.ontology.synonyms_of(label) if known else ()))


# id: (name, the values of a concept)
PROPERTIES: Mapping[str, tuple[str, Callable[[ConceptView, str], list[Value]]]] = {
    "prefLabel": ("name", lambda concepts, label: _get_texts(concepts.get_name(label))),
    "altLabel": ("synonym", _get_synonyms),
    "notation": (
        "notation",
        lambda concepts, label: _get_texts(concepts.ontology.notations.get(label, "")),
    ),
    "definition": (
        "definition",
        lambda concepts, label: _get_texts(concepts.ontology.definitions.get(label, "")),
    ),
    "broader": ("broader concept", _get_parents),
    "narrower": (
        "narrower concept",
        lambda concepts, label: _get_refs(concepts, concepts.get_children(label)),
    ),
}
REFERENCES = ("broader", "narrower")  # properties whose values are concepts


def describe_service(name: str, concepts: ConceptView, address: str, version: str) -> Json:
    """Return the manifest of the service at `address`."""
    suggest = {
        kind: {"service_url": address, "service_path": f"/suggest/{kind}"}
        for kind in ("entity", "type", "property")
    }
    return {
        "versions": ["0.1", "0.2"],
        "name": f"ontodex: {name} ({format_count(len(concepts.ontology), 'concept')})",
        "identifierSpace": f"urn:ontodex:{name}:",
        "schemaSpace": SCHEMA,
        "serviceVersion": version,
        "defaultTypes": [CONCEPT],
        "view": {"url": f"{address}/preview?id={{{{id}}}}"},
        "preview": {"url": f"{address}/preview?id={{{{id}}}}", "width": 420, "height": 200},
        "suggest": suggest,
        "extend": {
            "propose_properties": {"service_url": address, "service_path": "/properties"},
            "property_settings": [],
        },
    }


def find_candidates(
    concepts: ConceptView, query: str, limit: int, wanted: Sequence[tuple[str, str]] = ()
) -> list[Json]:
    """Return the concepts that a cell may mean, best first.

    `wanted` holds (property, value) of other cells of the row. One candidate is a certain match if
    it alone has the text as a complete name and agrees with all of them.
    """
    text = " ".join(query.split())[:MAX_SEARCH]
    found = [
        _make_candidate(concepts, hit, text, wanted) for hit in concepts.search(text, limit) if text
    ]
    found.sort(key=lambda one: -one["score"])
    certain = [one for one in found if one["score"] >= WHOLE_NAMES["synonym"]]
    if len(certain) == 1 and certain[0]["id"] not in concepts.ontology.deprecated:
        certain[0]["match"] = True
    return found


def _make_candidate(
    concepts: ConceptView, hit: Json, text: str, wanted: Sequence[tuple[str, str]]
) -> Json:
    score = WHOLE_NAMES.get(hit["kind"])
    if score is None and hit["kind"] == "similar":
        score = SIMILAR
    if score is None:  # the beginning of a name, or some of its words
        score = 60 + 30 * min(1.0, len(text) / max(1, len(hit["text"])))
    missing = sum(not _has_value(concepts, hit["label"], *one) for one in wanted)
    return {
        "id": hit["label"],
        "name": hit["name"],
        "description": " > ".join(step["name"] for step in hit["path"]),
        "type": [CONCEPT],
        "score": round(max(0.0, score - DISAGREEMENT * missing), 1),
        "match": False,
    }


def _has_value(concepts: ConceptView, label: str, property_: str, value: str) -> bool:
    """Return whether a concept has the value; one of an unknown property is not compared."""
    if property_ not in PROPERTIES:
        return True
    values = PROPERTIES[property_][1](concepts, label)
    return value.casefold() in {text.casefold() for own in values for text in own.values()}


def suggest_entities(concepts: ConceptView, prefix: str, limit: int) -> list[Json]:
    """Return the concepts that a user may be typing."""
    return [
        {
            "id": hit["label"],
            "name": hit["name"],
            "description": " > ".join(step["name"] for step in hit["path"]),
            "notable": [CONCEPT],
        }
        for hit in concepts.search(prefix, limit)
    ]


def list_properties() -> list[Json]:
    """Return all properties that a table can be extended by."""
    return [{"id": id_, "name": name} for id_, (name, _) in PROPERTIES.items()]


def extend_rows(concepts: ConceptView, labels: Sequence[str], properties: Sequence[str]) -> Json:
    """Return the values of known properties for each concept; unknown concepts have none."""
    chosen = [id_ for id_ in dict.fromkeys(properties) if id_ in PROPERTIES]
    meta = [
        {"id": id_, "name": PROPERTIES[id_][0]} | ({"type": CONCEPT} if id_ in REFERENCES else {})
        for id_ in chosen
    ]
    rows = {
        label: {
            id_: PROPERTIES[id_][1](concepts, label) if concepts.has(label) else []
            for id_ in chosen
        }
        for label in dict.fromkeys(labels)
    }
    return {"meta": meta, "rows": rows}


def render_preview(concepts: ConceptView, label: str) -> str:
    """Return a small HTML page about a concept, without scripts and styles."""
    details = concepts.get_details(label)
    path = " > ".join(step["name"] for step in details["path"])
    parts = [
        f"<h1>{escape(details['name'])}</h1>",
        f"<p>{escape(path)}</p>" if path else "",
        f"<p>{escape(details['definition'])}</p>" if details["definition"] else "",
        f"<p>Also: {escape(', '.join(details['synonyms']))}</p>" if details["synonyms"] else "",
        f"<p>{escape(details['notation'])} <code>{escape(label)}</code></p>",
    ]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(label)}</title>'
    return head + "".join(parts) + "</html>"
