"""Small hand-made files of every ontology format, recognised by content and read."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from ontodex.errors import DataError
from ontodex.ontology.detect import detect_format
from ontodex.ontology.open import FORMATS, read_ontology

TURTLE = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix e: <http://e/> .

e:scheme a skos:ConceptScheme ; rdfs:label "Test" ; skos:hasTopConcept e:animal , e:plant .
e:animal a skos:Concept ; skos:prefLabel "Animal"@en , "Tier"@de ; skos:narrower e:dog .
e:plant a skos:Concept ; rdfs:label "Plant"@en ; skos:notation "P" ; skos:topConceptOf e:scheme .
e:dog a skos:Concept ; skos:prefLabel "Dog"@en ; skos:altLabel "Hound"@en , "Köter"@de ;
    skos:hiddenLabel "dogg"@en ; skos:scopeNote "A friend."@en , "Ein Freund."@de .
e:beagle a e:Breed ; skos:prefLabel "Beagle" ; skos:broader e:dog , e:gone ;
    skos:broaderTransitive e:animal .
e:Breed rdfs:subClassOf skos:Concept .
e:cur a e:Breed ; owl:deprecated true ; dct:isReplacedBy e:dog .
e:mutt a skos:Concept ; skos:prefLabel "Mutt"@en ; owl:deprecated true ; dct:isReplacedBy e:dog .
"""

RDF_XML = """\
<?xml version="1.0"?>
<!DOCTYPE rdf:RDF SYSTEM "http://e/some.dtd">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:skos="http://www.w3.org/2004/02/skos/core#">
 <skos:Concept rdf:about="http://e/a">
  <skos:prefLabel xml:lang="EN">A</skos:prefLabel></skos:Concept>
 <skos:Concept rdf:about="http://e/b"><skos:prefLabel>B</skos:prefLabel>
  <skos:broader rdf:resource="http://e/a"/></skos:Concept>
</rdf:RDF>
"""

_SKOS = "http://www.w3.org/2004/02/skos/core#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
N_TRIPLES = f"""\
<http://e/a> <{_TYPE}> <{_SKOS}Concept> .
<http://e/b> <{_TYPE}> <{_SKOS}Concept> .
<http://e/a> <{_SKOS}prefLabel> "A"@en .
<http://e/b> <{_SKOS}prefLabel> "B" .
<http://e/b> <{_SKOS}broader> <http://e/a> .
"""

JSON_LD = """\
{"@context": {"skos": "http://www.w3.org/2004/02/skos/core#"},
 "@graph": [
  {"@id": "http://e/a", "@type": "skos:Concept",
   "skos:prefLabel": {"@value": "A", "@language": "en"}},
  {"@id": "http://e/b", "@type": "skos:Concept", "skos:prefLabel": "B",
   "skos:broader": {"@id": "http://e/a"}}]}
"""

OBO = r"""format-version: 1.2
ontology: test

[Term]
id: T:1
name: kinds of \{thing\} ! not part of it
alt_id: T:9

[Term]
id: T:2
name: small thing {source="x, y"}
def: "Small, \"really\" small.\nTwo lines." [ref:1]
synonym: "bit ! of a thing" EXACT layperson [ref:2]
synonym: "stuff" BROAD []
synonym: "small thing" RELATED []
is_a: T:1 {is_inferred="true"} ! kinds of thing
relationship: part_of T:3 ! whole
xref: X:1 "with: colon"

[Typedef]
id: part_of
name: part of

[Term]
id: T:3
name: obsolete whole
is_obsolete: true
replaced_by: T:1
consider: T:2
"""

MESH_XML = """\
<?xml version="1.0"?>
<!DOCTYPE DescriptorRecordSet SYSTEM "https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset.dtd">
<DescriptorRecordSet LanguageCode="eng">
<DescriptorRecord DescriptorClass="1"><DescriptorUI>D1</DescriptorUI>
 <DescriptorName><String>Body Regions</String></DescriptorName>
 <TreeNumberList><TreeNumber>A01</TreeNumber></TreeNumberList>
 <ConceptList><Concept PreferredConceptYN="N"><ScopeNote>wrong</ScopeNote></Concept>
  <Concept PreferredConceptYN="Y"><ScopeNote>Parts of the body.
  </ScopeNote><TermList><Term><String>Body Regions</String></Term>
  <Term><String>Regions, Body</String></Term></TermList></Concept></ConceptList></DescriptorRecord>
<DescriptorRecord><DescriptorUI>D2</DescriptorUI>
 <DescriptorName><String>Abdomen</String></DescriptorName>
 <TreeNumberList><TreeNumber>A01.923</TreeNumber></TreeNumberList></DescriptorRecord>
<DescriptorRecord><DescriptorUI>D3</DescriptorUI>
 <DescriptorName><String>Male</String></DescriptorName></DescriptorRecord>
</DescriptorRecordSet>
"""

MESH_ASCII = """\
*NEWRECORD
RECTYPE = D
MH = Body Regions
PRINT ENTRY = Regions, Body|T023|NON|EQV
MN = A01
MS = Parts of the body.
UI = D1

*NEWRECORD
RECTYPE = D
MH = Abdomen
ENTRY = Belly|T023|NON|NRW
MN = A01.923
AQ =
UI = D2

*NEWRECORD
RECTYPE = Q
SH = abnormalities
UI = Q1

*NEWRECORD
MH = Male
UI = D3
"""

MESH_TREES = "Body Regions;A01\nAbdomen;A01.923\nAbdomen;C23.1\n"
MESH_TSV = (
    "D1\tBody Regions\tRegions, Body\tA01\t\nD2\tAbdomen\t\tA01.923|C23.1\t7\nD3\tMale\t\t\t\n"
)
EUROVOC = """\
{"7": {"concept_id": "7", "label": "law", "alt_labels": ["legislation"], "parents": []},
 "8": {"concept_id": "8", "label": "tax law", "alt_labels": [], "parents": ["7", "99"]}}
"""
OBJECTS = '[{"id": 7, "label": "law"}, {"id": 8, "label": "tax law", "parents": [7]}]'
OWN = (
    '{"ontodex": "ontology", "version": 1, "categories": {"Law": ["7"]}, "retired": {"1": "7"}, '
    """"concepts": [
{"id": "7", "names": {"en": "law", "fr": "droit"}},
{"id": "8", "names": {"en": "tax law"}, "parents": ["7"], "positions": ["A01.2"]}
]}
"""
)
ANNIF_CSV = (
    'uri,notation,label_en,label_FI\nhttp://e/1,42.4,"Cats, big",kissat\nhttp://e/2,,Dogs,\n'
)
ANNIF_TSV = "<http://e/1>\tCats\t42.4\n<http://e/2>\tDogs\n"
TABLE = "ID;Name_en;Name_fi;Synonyms_en;Parents;Notation;Note\np1;Cats;kissat;Felines|toms;;42;x\n"
EDGES = "1 2\n1 3\n2 4\n3 4\n"
TAB_EDGES = "root\tleaf\nroot\tother\n\talone\n"
LABELS = "international affairs\nschool legislation\ntax law\n"

FILES = {
    "turtle": TURTLE,
    "rdfxml": RDF_XML,
    "ntriples": N_TRIPLES,
    "jsonld": JSON_LD,
    "obo": OBO,
    "mesh-xml": MESH_XML,
    "mesh-ascii": MESH_ASCII,
    "mesh-trees": MESH_TREES,
    "mesh-tsv": MESH_TSV,
    "json": EUROVOC,
    "annif-csv": ANNIF_CSV,
    "annif-tsv": ANNIF_TSV,
    "table": TABLE,
    "edges": EDGES,
    "labels": LABELS,
}


@pytest.fixture
def put(tmp_path):
    """Write a text to a file whose name says nothing."""

    def write(text):
        path = tmp_path / "file"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_there_is_a_file_of_every_format():
    assert FILES.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FILES)
def test_formats_are_recognised_by_content(name, put):
    path = put(FILES[name])
    assert detect_format(path) == name
    assert read_ontology(path).ids == read_ontology(path, name).ids


@pytest.mark.parametrize(
    ("text", "name"),
    [(OBJECTS, "json"), (OWN, "json"), (TAB_EDGES, "edges"), ("# a comment\n" + TURTLE, "turtle")],
)
def test_variants_are_recognised_too(text, name, put):
    assert detect_format(put(text)) == name


def test_a_table_of_ids_and_names_is_a_vocabulary_unless_an_id_repeats(put):
    rows = "gnd:1-5\tAirport construction\ngnd:2-X\tHeat pump\n"
    assert detect_format(put(rows)) == "annif-tsv"
    assert read_ontology(put(rows)).name("gnd:2-X") == "Heat pump"
    with pytest.raises(DataError, match="not a known ontology format"):
        detect_format(put(rows + "gnd:1-5\tRunway\n"))


def test_a_mesh_table_without_tree_numbers_is_a_vocabulary_without_a_hierarchy(put):
    rows = "D000001\tCalcimycin\t\nD000002\tTemefos\tAbate|Temephos\nD000003\tAbattoirs\t\n"
    assert detect_format(put(rows)) == "mesh-tsv"
    ontology = read_ontology(put(rows))
    assert ontology.name("D000001") == "Calcimycin"
    assert ontology.synonyms_by_language("D000002") == {"en": ("Abate", "Temephos")}
    assert ontology.parents.nnz == 0
    assert ontology.problems == ()


def test_three_columns_with_other_ids_are_asked_for_a_header(put):
    with pytest.raises(DataError, match="a vocabulary: p1, pike, hauki") as error:
        read_ontology(put("p1\tpike\thauki\np2\troach\tparticular text\n"))
    assert "in the first line: id, name" in error.value.hint


@pytest.mark.parametrize("name", FILES)
def test_byte_order_mark_and_crlf_change_nothing(name, put):
    plain = read_ontology(put(FILES[name]))
    path = put(b"\xef\xbb\xbf" + FILES[name].replace("\n", "\r\n").encode())
    if name in ("turtle", "ntriples", "jsonld"):
        path = put(FILES[name].replace("\n", "\r\n"))  # these standards know no byte order mark
    dos = read_ontology(path)
    assert dos.ids == plain.ids
    assert dos.names == plain.names
    assert (dos.parents != plain.parents).nnz == 0


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("name", ["turtle", "rdfxml", "obo", "mesh-xml", "json"])
def test_packed_files_read_the_same(name, pack, put):
    path = put(pack(FILES[name].encode()))
    assert detect_format(path) == name
    assert len(read_ontology(path)) >= 2


def test_skos_in_every_respect(put):
    ontology = read_ontology(put(TURTLE))
    e = "http://e/"
    assert set(ontology.ids) == {e + x for x in ("animal", "plant", "dog", "beagle", "mutt")}
    assert ontology.name(e + "animal", "de") == "Tier"
    assert ontology.name(e + "plant") == "Plant"  # by rdfs:label
    assert ontology.name(e + "beagle") == "Beagle"
    assert ontology.names["und"][ontology.index[e + "beagle"]] == "Beagle"
    assert ontology.synonyms_of(e + "dog", "en") == ("Hound", "dogg")
    assert ontology.synonyms_of(e + "dog", "de") == ("Köter",)
    assert ontology.parents_of(e + "dog") == [e + "animal"]  # stated by narrower alone
    assert ontology.parents_of(e + "beagle") == [e + "dog"]  # not by broaderTransitive
    assert ontology.notations == {e + "plant": "P"}
    assert ontology.definitions == {e + "dog": "A friend."}
    assert ontology.categories == {"Animal": (e + "animal",), "Plant": (e + "plant",)}
    assert ontology.deprecated == {e + "mutt", e + "cur"}
    assert ontology.replaced_by == {e + "mutt": e + "dog", e + "cur": e + "dog"}
    assert ontology.problems == (
        "1 missing parent dropped: 'http://e/gone' (of 'http://e/beagle')",
    )


def test_skos_keeps_schemes_types_titles_and_definitions_of_all_languages(put):
    text = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix e: <http://e/> .
@prefix dct: <http://purl.org/dc/terms/> .
e:s a skos:ConceptScheme ; dct:title "Places and people"@en .
e:a a skos:Concept , e:Place ; skos:inScheme e:s , e:t ; skos:definition "Here."@en , "Hier."@de .
e:b a skos:Concept ; skos:inScheme e:s .
e:Place skos:prefLabel "place"@en .
"""
    ontology = read_ontology(put(text))
    assert ontology.title == "Places and people"
    assert ontology.schemes == {
        "http://e/a": ("http://e/s", "http://e/t"),
        "http://e/b": ("http://e/s",),
    }
    assert ontology.types == {"http://e/a": ("http://e/Place",)}
    assert ontology.group_names["http://e/Place"] == "place"
    assert ontology.definition("http://e/a", "de") == "Hier."
    assert ontology.definition("http://e/a") == ontology.definition("http://e/a", "fi") == "Here."


@pytest.mark.parametrize("name", ["rdfxml", "ntriples", "jsonld"])
def test_the_other_rdf_syntaxes_give_the_same_ontology(name, put):
    ontology = read_ontology(put(FILES[name]))
    assert ontology.ids == ("http://e/a", "http://e/b")
    assert ontology.names == {"en": ["A", ""], "und": ["", "B"]}
    assert ontology.parents_of("http://e/b") == ["http://e/a"]


def test_schemes_or_collections_become_categories_when_they_divide_the_concepts(put):
    head = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix e: <http://e/> .\n"
    concepts = "e:a a skos:Concept . e:b a skos:Concept . e:c a skos:Concept .\n"
    schemes = (
        'e:s skos:prefLabel "S" . e:t skos:prefLabel "T" . '
        "e:a skos:inScheme e:s . e:b skos:inScheme e:t , e:s .\n"
    )
    ontology = read_ontology(put(head + concepts + schemes))
    assert ontology.categories == {"S": ("http://e/a", "http://e/b"), "T": ("http://e/b",)}
    collection = 'e:k a skos:Collection ; skos:prefLabel "K" ; skos:member e:c , e:none .\n'
    ontology = read_ontology(put(head + concepts + collection))
    assert ontology.categories == {"K": ("http://e/c",)}


def test_obo_in_every_respect(put):
    ontology = read_ontology(put(OBO))
    assert ontology.ids == ("T:1", "T:2", "T:3")
    assert ontology.names["en"] == ["kinds of {thing}", "small thing", "obsolete whole"]
    assert ontology.synonyms_of("T:2") == ("bit ! of a thing", "stuff")
    assert ontology.definitions == {"T:2": 'Small, "really" small.\nTwo lines.'}
    assert ontology.parents_of("T:2") == ["T:1"]
    assert ontology.deprecated == {"T:3", "T:9"}
    assert ontology.replaced_by == {"T:3": "T:1", "T:9": "T:1"}


@pytest.mark.parametrize("name", ["mesh-xml", "mesh-ascii"])
def test_mesh_records(name, put):
    ontology = read_ontology(put(FILES[name]))
    assert ontology.ids == ("D1", "D2", "D3")
    assert ontology.name("D1") == "Body Regions"
    assert ontology.synonyms_of("D1") == ("Regions, Body",)
    assert ontology.definitions == {"D1": "Parts of the body."}
    assert ontology.parents_of("D2") == ["D1"]
    assert ontology.positions == [("A01",), ("A01.923",), ()]
    assert ontology.categories == {"Anatomy": ("D1",)}
    assert ontology.problems == ()


def test_mesh_tables(put):
    ontology = read_ontology(put(MESH_TSV))
    assert ontology.positions == [("A01",), ("A01.923", "C23.1"), ()]
    assert ontology.parents_of("D2") == ["D1"]
    assert ontology.problems == ("1 missing parent dropped: 'C23' (of 'D2')",)
    ontology = read_ontology(put(MESH_TREES))
    assert ontology.ids == ("Body Regions", "Abdomen")  # no identifiers there
    assert ontology.parents_of("Abdomen") == ["Body Regions"]


def test_json_by_id_as_a_list_and_our_own(put):
    ontology = read_ontology(put(EUROVOC))
    assert ontology.name("8") == "tax law"
    assert ontology.synonyms_of("7") == ("legislation",)
    assert ontology.parents_of("8") == ["7"]
    assert ontology.problems == ("1 missing parent dropped: '99' (of '8')",)
    assert read_ontology(put(OBJECTS)).parents_of("8") == ["7"]
    ontology = read_ontology(put(OWN))
    assert ontology.name("7", "fr") == "droit"
    assert ontology.positions == [(), ("A01.2",)]
    assert ontology.categories == {"Law": ("7",)}
    assert ontology.replaced_by == {"1": "7"}
    indented = OWN.replace('"concepts": [', '"concepts":\n [')  # by another tool: read at once
    assert read_ontology(put(indented)).parents_of("8") == ["7"]


def test_annif_vocabularies(put):
    ontology = read_ontology(put(ANNIF_CSV))
    assert ontology.names == {"en": ["Cats, big", "Dogs"], "fi": ["kissat", ""]}
    assert ontology.notations == {"http://e/1": "42.4"}
    ontology = read_ontology(put(ANNIF_TSV))
    assert ontology.ids == ("http://e/1", "http://e/2")
    assert ontology.names == {"und": ["Cats", "Dogs"]}
    assert ontology.notations == {"http://e/1": "42.4"}


def test_edge_lists_and_label_lists(put):
    ontology = read_ontology(put(EDGES))
    assert ontology.ids == ("1", "2", "3", "4")
    assert ontology.parents_of("4") == ["2", "3"]
    ontology = read_ontology(put(TAB_EDGES))
    assert ontology.ids == ("root", "leaf", "other", "alone")
    ontology = read_ontology(put(LABELS))
    assert ontology.ids[1] == ontology.name("school legislation") == "school legislation"


def test_an_unknown_format_name_offers_the_nearest(put):
    with pytest.raises(DataError, match="did you mean 'turtle'"):
        read_ontology(put(TURTLE), "turtel")


@pytest.mark.parametrize("text", ["", "a\tb\tc\n", b"\x00\x01\x02", "x" * 300])
def test_the_error_for_another_file_describes_its_beginning(text, put):
    path = put(text)
    with pytest.raises(DataError, match="not a known ontology format; it ") as met:
        detect_format(path)
    assert f"ontodex convert {path} OUT.json --from FORMAT" in met.value.hint


def test_an_id_twice_in_a_json_object_is_merged_and_reported(put):
    ontology = read_ontology(put('{"A": {"label": "one"}, "B": {}, "A": {"label": "two"}}'))
    assert ontology.ids == ("A", "B")
    assert ontology.name("A") == "one"
    assert ontology.synonyms["und"][0] == ("two",)
    assert ontology.problems == ("1 id given more than once, merged: 'A' (2 times)",)


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ('{"A": {"label": "one", "label": "two"}}', "label"),
        ('[{"id": "A", "names": {"en": "one", "en": "two"}}]', "en"),
        ('{"version": 1, "version": 1, "concepts": [\n{"id": "A"}\n]}\n', "version"),
        ('{"concepts": [{"id": "A"}], "concepts": [{"id": "B"}]}', "concepts"),
        ('{"ontodex": "ontology", "concepts": [\n{"id": "A", "id": "B"}\n]}\n', "id"),
    ],
)
def test_a_field_twice_in_a_json_object_is_refused(text, twice, put):
    with pytest.raises(DataError, match=f"{twice!r} is given twice"):
        read_ontology(put(text))


def test_an_ontology_may_have_a_title(put):
    assert read_ontology(put('{"title": "Fish", "concepts": [{"id": "A"}]}')).ids == ("A",)


DOCUMENT = '{"id": "1", "title": "Trout", "text": "A fish.", "labels": ["a"]}\n'


@pytest.mark.parametrize("text", [DOCUMENT, DOCUMENT * 3, DOCUMENT[:-1]])
def test_a_corpus_given_as_ontology_is_recognised(text, put):
    path = put(text)
    with pytest.raises(DataError, match="looks like a corpus") as met:
        read_ontology(path)
    assert "not an ontology" in str(met.value)
    assert "--ontology" in met.value.hint


def test_paths_may_be_strings(put):
    path = str(put(TURTLE))
    assert detect_format(path) == "turtle"
    assert len(read_ontology(path)) == len(read_ontology(Path(path)))
