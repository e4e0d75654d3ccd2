"""Regular expressions take time and memory that grow with the text, whatever the text."""

from __future__ import annotations

import re

import pytest

import ontodex
from regex_pumping import Used, find_slow, list_patterns

# Each was in the package until an audit found it.
SLOW = [
    Used(r"[^\t]*\t(?:\s*(?:<[^<>\s]+>|[a-z]+://\S+))*\s*", 0, ("fullmatch",), "annif-tsv"),
    Used(rb"^\s*@prefix\s|<rdf:RDF", re.MULTILINE, ("search",), "detection"),
    Used(r'"((?:[^"\\]|\\.)*)"', 0, ("match",), "obo"),
    Used(r"\s*[(\[<][^()\[\]<>]*[)\]>]\s*$", 0, ("finditer",), "lexical"),
    Used(r"(?:[0-9]+(?:::[-+0-9.eE]+)?(?:,|(?=\t)))*\t", 0, ("match",), "pecos"),
    Used(r"([^\W\d_]{2,})[-\u2010\u00ad]$", 0, ("search",), "pdf"),
    Used(r"\w+-\w+", 0, ("finditer",), "compounds"),
    Used(rb"<MedlineCitation\b[^>]*>\s*<PMID([^>]*)>", 0, ("search",), "medline"),
    Used(r"[A-Z]\d+(?:\.\d+)*", 0, ("fullmatch",), "tree numbers"),
]


def test_patterns_that_take_long_or_much_memory_are_found() -> None:
    found = [sentence.partition(":")[0] for sentence in find_slow(SLOW)]
    assert found == [used.place for used in SLOW]


@pytest.mark.slow
def test_every_pattern_of_the_package_takes_linear_time_and_memory() -> None:
    patterns = list_patterns(ontodex)
    places = {used.place for used in patterns}
    assert {"ontodex.ontology.obo._QUOTED", "ontodex.corpora.detect._ONTOLOGY"} <= places
    assert any(place.endswith("CAPABILITIES") for place in places)  # held by an object
    assert any(re.fullmatch(r"ontodex\.corpora\.pdf_text:\d+", place) for place in places)
    assert find_slow(patterns) == []
