"""Ontologies are read back as they were written, as far as the format can store them."""

import gzip
import json
import string
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.errors import DataError
from ontodex.ontology.detect import detect_format
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import FORMATS, infer_format, read_ontology, write_ontology

# Any printable text: quotes, braces, commas, escapes, other scripts; not only spaces.
TEXT = st.text(
    st.one_of(
        st.sampled_from(list("\\\"'{}[]!,;:<>@#%|\t\n= ")),
        st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")),
    ),
    min_size=1,
    max_size=12,
).filter(lambda text: text == text.strip() and text != "")
LINE = TEXT.filter(lambda text: len(text.splitlines()) == 1 and "\t" not in text)
ODD_ID = st.text(string.ascii_letters + string.digits + ':/#%._ -ä!{}\\"', min_size=1, max_size=8)
IDS = ODD_ID.filter(lambda text: text == text.strip())


@st.composite
def ontologies(draw, text=TEXT, languages=("en", "de", "und")):
    """A small ontology with everything in it; parents have smaller numbers."""
    ids = draw(st.lists(IDS, min_size=1, max_size=6, unique=True))
    concepts = []
    for i, label in enumerate(ids):
        tags = draw(st.lists(st.sampled_from(languages), unique=True))
        names = {tag: draw(text) for tag in tags}
        synonyms = {tag: draw(st.lists(text, max_size=3, unique=True)) for tag in tags}
        concepts.append(
            Concept(
                label,
                names,
                {tag: [s for s in own if s != names[tag]] for tag, own in synonyms.items()},
                draw(st.lists(st.sampled_from(ids[:i]), unique=True)) if i else [],
                draw(st.one_of(st.just(""), text)),
                draw(st.one_of(st.just(""), text)),
                draw(st.booleans()),
                draw(st.sampled_from(["", *ids])),
                draw(st.lists(st.sampled_from(["A01", "B02.3", "Z9.1"]), unique=True)),
            )
        )
    heads = st.lists(st.sampled_from(ids), min_size=1, unique=True)
    return build_ontology(
        concepts,
        categories=draw(st.dictionaries(text, heads, max_size=2)),
        retired={"old id": ids[0], "gone": ""} if draw(st.booleans()) else {},
    )


def round_trip(ontology, name):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write_ontology(ontology, path, name)
        first = path.read_bytes()
        back = read_ontology(path, name)
        write_ontology(ontology, path, name)
        assert path.read_bytes() == first
        return back


def graph_of(ontology):
    return {label: set(ontology.parents_of(label)) for label in ontology.ids}


def names_of(ontology):
    return {
        (label, tag): names[i]
        for tag, names in ontology.names.items()
        for i, label in enumerate(ontology.ids)
        if names[i]
    }


def synonyms_of(ontology):
    return {
        (label, tag): set(synonyms[i])
        for tag, synonyms in ontology.synonyms.items()
        for i, label in enumerate(ontology.ids)
        if synonyms[i]
    }


@settings(deadline=None, max_examples=25)
@given(ontologies())
def test_the_json_of_ontodex_holds_everything(ontology):
    back = round_trip(ontology, "json")
    assert back.ids == ontology.ids
    assert graph_of(back) == graph_of(ontology)
    assert names_of(back) == names_of(ontology)
    assert synonyms_of(back) == synonyms_of(ontology)
    assert back.positions == ontology.positions
    for field in ("definitions", "notations", "deprecated", "replaced_by", "categories"):
        assert getattr(back, field) == getattr(ontology, field), field
    assert back.problems == ontology.problems


@pytest.mark.parametrize("name", ["turtle", "ntriples", "jsonld", "rdfxml"])
@settings(deadline=None, max_examples=15)
@given(ontology=ontologies())
def test_skos_holds_everything_but_tree_numbers(ontology, name):
    back = round_trip(ontology, name)
    assert set(back.ids) == set(ontology.ids)
    assert graph_of(back) == graph_of(ontology)
    assert names_of(back) == names_of(ontology)
    assert synonyms_of(back) == synonyms_of(ontology)
    for field in ("definitions", "notations", "deprecated", "replaced_by"):
        assert getattr(back, field) == getattr(ontology, field), field
    assert {k: set(v) for k, v in back.categories.items()} == {
        k: set(v) for k, v in ontology.categories.items()
    }


@pytest.mark.parametrize("name", ["json", "turtle", "rdfxml"])
def test_groups_titles_and_definitions_of_all_languages_are_written(name):
    texts = {"de": "Hoch.", "en": "High."}
    ontology = build_ontology(
        [
            Concept("urn:a", definition="High.", translated_definitions=texts, schemes=["urn:s"]),
            Concept("urn:b", schemes=["urn:t"], types=["urn:Place"]),
        ],
        group_names={"urn:Place": "place", "urn:s": "S", "urn:t": "T"},
        title="Hills",
    )
    back = round_trip(ontology, name)
    for field in ("schemes", "types", "group_names", "title", "translated_definitions"):
        assert getattr(back, field) == getattr(ontology, field), field
    assert back.definitions == ontology.definitions


@settings(deadline=None, max_examples=25)
@given(ontologies(languages=("en",)))
def test_obo_holds_one_language(ontology):
    back = round_trip(ontology, "obo")
    assert back.ids == ontology.ids
    assert graph_of(back) == graph_of(ontology)
    assert [back.name(label) for label in back.ids] == [ontology.name(i) for i in ontology.ids]
    assert synonyms_of(back) == synonyms_of(ontology)
    assert back.definitions == ontology.definitions
    assert back.deprecated & set(back.ids) == ontology.deprecated & set(ontology.ids)
    assert back.replaced_by == ontology.replaced_by


@settings(deadline=None, max_examples=25)
@given(ontologies(text=LINE))
def test_annif_vocabularies_hold_names_and_notations_of_concepts_that_are_not_deprecated(ontology):
    living = [label for label in ontology.ids if label not in ontology.deprecated]
    if not living:
        return
    by_csv, by_tsv = round_trip(ontology, "annif-csv"), round_trip(ontology, "annif-tsv")
    assert list(by_csv.ids) == list(by_tsv.ids) == living
    assert names_of(by_csv) == {
        key: name for key, name in names_of(ontology).items() if key[0] in living
    }
    for label in living:
        assert by_tsv.name(label) == ontology.name(label)
        assert by_tsv.notations.get(label) == ontology.notations.get(label)
        assert by_csv.notations.get(label) == ontology.notations.get(label)


@settings(deadline=None, max_examples=25)
@given(ontologies())
def test_edges_hold_the_graph(ontology):
    back = round_trip(ontology, "edges")
    assert graph_of(back) == graph_of(ontology)


TWO = build_ontology(
    [
        Concept("a", {"en": "A"}, {"en": ["one"]}),
        Concept("b", {"en": "B", "de": "Be"}, parents=["a"]),
    ]
)


@pytest.mark.parametrize("name", [name for name, known in FORMATS.items() if known.write])
def test_every_written_format_is_recognised_again(name, tmp_path):
    write_ontology(TWO, tmp_path / "file", name)
    assert detect_format(tmp_path / "file") == name


def test_the_file_is_one_json_document_with_a_concept_a_line(tmp_path):
    write_ontology(TWO, tmp_path / "o.json")
    text = (tmp_path / "o.json").read_text()
    assert [c["id"] for c in json.loads(text)["concepts"]] == ["a", "b"]
    assert text.count("\n") == 4


def test_the_name_chooses_the_format_and_gz_packs(tmp_path):
    assert infer_format(Path("x/o.ttl.gz")) == "turtle"
    assert infer_format(Path("mesh2024.final.OBO")) == "obo"
    write_ontology(TWO, tmp_path / "o.obo.gz")
    packed = (tmp_path / "o.obo.gz").read_bytes()
    assert gzip.decompress(packed).startswith(b"format-version: 1.4\n")
    write_ontology(TWO, tmp_path / "o.obo.gz")
    assert (tmp_path / "o.obo.gz").read_bytes() == packed  # no time stamp inside
    with pytest.raises(DataError, match="does not say which ontology format"):
        infer_format(Path("vocabulary.bin"))


def test_a_format_that_is_only_read_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match="mesh-xml can be read but not written"):
        write_ontology(TWO, tmp_path / "o.xml", "mesh-xml")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "o.ttl"
    write_ontology(TWO, path)
    before = path.read_bytes()
    broken = build_ontology([Concept("a", {"not a tag!": "A"})])
    with pytest.raises(DataError, match="cannot be written as turtle"):
        write_ontology(broken, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
