"""Files made to break a reader: refused with a sentence, or read, in little time and memory."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from growth import limit_processor_time
from ontodex.errors import DataError
from ontodex.ontology.open import read_ontology

RDF = (
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:skos="http://www.w3.org/2004/02/skos/core#"'
)
PREFIXES = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n@prefix e: <http://e/> .\n"


@pytest.fixture
def put(tmp_path):
    def write(text):
        path = tmp_path / "file"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture(autouse=True)
def in_time():
    """Every file of this page ends in seconds; unguarded, a bomb of entities takes hours."""
    with limit_processor_time(300):
        yield


def bomb(root, body):
    entities = '<!ENTITY a0 "' + "ha" * 20 + '">'
    entities += "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 9))
    return f'<?xml version="1.0"?>\n<!DOCTYPE {root} [{entities}]>\n{body}'


def test_an_entity_bomb_in_rdf_xml_is_refused(put):
    body = (
        f'<rdf:RDF {RDF}><skos:Concept rdf:about="http://e/a">'
        "<skos:prefLabel>&a8;</skos:prefLabel></skos:Concept></rdf:RDF>"
    )
    with pytest.raises(DataError, match="DOCTYPE declares entities or attributes"):
        read_ontology(put(bomb("rdf:RDF", body)), "rdfxml")


def test_an_entity_bomb_in_mesh_xml_is_refused(put):
    body = (
        "<DescriptorRecordSet><DescriptorRecord><DescriptorUI>&a8;</DescriptorUI>"
        "</DescriptorRecord></DescriptorRecordSet>"
    )
    with pytest.raises(DataError, match="DOCTYPE declares entities or attributes"):
        read_ontology(put(bomb("DescriptorRecordSet", body)))


def test_an_external_entity_is_never_read(put, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("do not tell")
    text = (
        f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
        f'<rdf:RDF {RDF}><skos:Concept rdf:about="http://e/a">'
        "<skos:prefLabel>&x;</skos:prefLabel></skos:Concept></rdf:RDF>"
    )
    with pytest.raises(DataError) as caught:
        read_ontology(put(text), "rdfxml")
    assert "do not tell" not in str(caught.value)


@pytest.mark.parametrize(
    "context",
    [
        "http://evil.example/context.jsonld",
        ["https://evil.example/c", {"a": "http://a/"}],
        {"@import": "http://evil.example/c"},
        {"inner": {"@id": "http://e/x", "@context": "/local/file"}},
    ],
)
def test_json_ld_with_a_remote_context_is_refused_by_name(context, put):
    text = json.dumps({"@context": context, "@id": "http://e/a"})
    with pytest.raises(DataError, match="needs the remote context"):
        read_ontology(put(text))


def test_json_nested_a_million_deep_is_refused(put):
    with pytest.raises(DataError, match="nested too deeply"):
        read_ontology(put("[" * 1_000_000), "json")
    with pytest.raises(DataError, match="nested too deeply"):
        read_ontology(put('{"@id":' * 1_000_000), "jsonld")


@pytest.mark.parametrize("length", [1, 2, 1000])
def test_broader_loops_are_cut_at_one_edge(length, put):
    lines = [f"e:c{i} a skos:Concept ; skos:broader e:c{(i + 1) % length} ." for i in range(length)]
    ontology = read_ontology(put(PREFIXES + "\n".join(lines)))
    assert len(ontology) == length
    assert ontology.parents.nnz == length - 1
    assert ontology.problems[0].startswith("1 edge closing a cycle cut: ")


def test_broader_and_narrower_that_contradict_each_other_are_a_loop_of_two(put):
    ontology = read_ontology(
        put(PREFIXES + "e:a a skos:Concept ; skos:broader e:b ; skos:narrower e:b . "
            "e:b a skos:Concept .")
    )  # fmt: skip
    assert ontology.parents.nnz == 1
    assert len(ontology.problems) == 1


@pytest.mark.parametrize(
    ("text", "name", "line", "words"),
    [
        (PREFIXES + "e:a a skos:Concept ;;; ] .", "turtle", 3, "not turtle"),
        (PREFIXES + 'e:a skos:prefLabel "no end', "turtle", 3, "not turtle"),
        (PREFIXES + "x:a a skos:Concept .", "turtle", 3, "prefix x: has not been declared"),
        ("<http://e/a> <http://e/b> .\n", "ntriples", 1, "not ntriples"),
        (
            f"<rdf:RDF {RDF}>\n<skos:Concept>\n</skos:Oops>\n</rdf:RDF>",
            "rdfxml",
            3,
            "not well-formed XML",
        ),
        (f"<rdf:RDF {RDF}>\n&nbsp;</rdf:RDF>", "rdfxml", 2, "not well-formed XML"),
        ('{"@id": "http://e/a",\n oops}', "jsonld", 2, "not JSON"),
        ('{"1": {"label": "a"},\n', "json", 2, "not JSON"),
        ("[Term]\nid: a\nname no colon\n", "obo", 3, "expected 'tag: value'"),
        ('[Term]\nid: a\nsynonym: "open\n', "obo", 3, "needs a text in quotes"),
        ("[Term]\nname: a\n\n[Term]\nid: b\n", "obo", 1, "must have one id"),
        ("Abdomen;A01\nBelly\n", "mesh-trees", 2, "expected 'Name;A01'"),
        ("Abdomen;A01\nBelly;01.2\n", "mesh-trees", 2, "is not a tree number"),
        ("D1\tA\t\tA01\nD2\tB\n", "mesh-tsv", 2, "2 columns"),
        ("*NEWRECORD\nMH = A\n", "mesh-ascii", 1, "has no UI"),
        ("*NEWRECORD\nMH A\n", "mesh-ascii", 2, "expected 'FIELD = value'"),
        ("uri,label_en\nhttp://e/1\n", "annif-csv", 2, "1 columns, but the header has 2"),
        ('uri,label_en\nhttp://e/1,"a"b\n', "annif-csv", 2, "not CSV"),
        ("uri,label_en\n,a\n", "annif-csv", 2, "without a uri"),
        ("<http://e/1>\tA\n<http://e/2>\n", "annif-tsv", 2, "1 columns"),
        ("1 2\n1 2 3\n", "edges", 2, "expected 'parent child'"),
        (b"ok\n\xff\xfe\n", "labels", 2, "not UTF-8"),
        ("a\nb\0c\n", "labels", 2, "NUL"),
    ],
)
def test_garbage_is_named_with_its_line(text, name, line, words, put):
    path = put(text)
    with pytest.raises(DataError) as caught:
        read_ontology(path, name)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ('"text"', "must be an object"),
        ("{}", "no id"),
        ('{"id": null}', "no id"),
        ('{"id": "a", "label": 7}', "'label' must be a text, not 7"),
        ('{"id": "a", "parents": "b"}', "'parents' must be a list of ids"),
        ('{"id": "a", "alt_labels": [null]}', "'alt_labels' must be a list of texts"),
        ('{"id": "a", "names": {"en": ["x"]}}', "'names' must be an object of texts"),
        ('{"id": "a", "synonyms": {"en": "x"}}', "'synonyms' must be an object of lists"),
        ('{"id": "a", "deprecated": "no"}', "'deprecated' must be true or false"),
    ],
)
def test_json_fields_of_the_wrong_shape_are_named(record, words, put):
    with pytest.raises(DataError, match=words):
        read_ontology(put(f"[{record}]"), "json")


def test_json_of_ontodex_cut_off_or_of_another_version_is_refused(put):
    whole = '{"ontodex": "ontology", "version": 1, "concepts": [\n{"id": "a"},\n{"id": "b"}\n]}\n'
    assert len(read_ontology(put(whole))) == 2
    with pytest.raises(DataError, match="is cut off"):
        read_ontology(put(whole[:-4]))
    with pytest.raises(DataError, match="version 2; this release of ontodex reads version 1"):
        read_ontology(put(whole.replace('"version": 1', '"version": 2')))


@pytest.mark.parametrize("name", ["turtle", "rdfxml", "jsonld", "obo", "mesh-xml", "json", "edges"])
def test_a_truncated_gzip_is_damaged_data_in_every_reader(name, put):
    noise = "\n".join(f"{i * 7919 % 10007} {i * 104729 % 10009}" for i in range(20_000))
    path = put(gzip.compress(noise.encode())[:-2000])
    with pytest.raises(DataError, match=r"damaged or cut off|not |XML element"):
        read_ontology(path, name)


def test_a_truncated_gzip_of_good_turtle_is_damaged_data(put):
    good = PREFIXES + "".join(f"e:c{i * 7919} a skos:Concept .\n" for i in range(5_000))
    with pytest.raises(DataError, match="damaged or cut off"):
        read_ontology(put(gzip.compress(good.encode())[:-200]), "turtle")


def test_a_file_without_concepts_says_what_it_has(put):
    with pytest.raises(DataError, match=r"has no skos:Concept; .*owl#Class"):
        read_ontology(
            put("@prefix owl: <http://www.w3.org/2002/07/owl#> .\n<http://e/a> a owl:Class .")
        )
    for text, name in [("{}", "json"), ("[]", "json"), ("format-version: 1.2\n", "obo")]:
        with pytest.raises(DataError, match="has no"):
            read_ontology(put(text), name)
    with pytest.raises(DataError, match="has no descriptor"):
        read_ontology(put("<DescriptorRecordSet></DescriptorRecordSet>"))


def test_empty_xml_elements_and_missing_identifiers(put):
    empty = "<DescriptorRecord><DescriptorUI/></DescriptorRecord>"
    with pytest.raises(DataError, match=":2: a DescriptorRecord has no DescriptorUI"):
        read_ontology(put(f"<DescriptorRecordSet>\n{empty}</DescriptorRecordSet>"))
    hollow = (
        "<DescriptorRecord><DescriptorUI>D1</DescriptorUI><ConceptList><Concept><TermList><Term>"
        "<String/></Term></TermList></Concept></ConceptList></DescriptorRecord>"
    )
    ontology = read_ontology(put(f"<DescriptorRecordSet>{hollow}</DescriptorRecordSet>"))
    assert ontology.name("D1") == "D1"
    assert ontology.synonyms_of("D1") == ()


def test_long_lines_made_for_slow_patterns_are_read_in_time(put):
    tricky = "[Term]\nid: a\nname: " + " {a=" * 200_000 + "}\n"
    assert len(read_ontology(put(tricky), "obo")) == 1
    quotes = '[Term]\nid: a\ndef: "' + '\\"' * 400_000 + "\n"
    with pytest.raises(DataError, match="in quotes"):
        read_ontology(put(quotes), "obo")
    for head in ("<" + "a" * 60_000, '<a> <b> "' + " " * 60_000, "x\tb" + "\n" * 60_000):
        with pytest.raises(DataError):
            read_ontology(put(head + "\nx\ty z\n"))


def test_turtle_nested_deeply_is_read_or_refused(put):
    nested = PREFIXES + "e:a a skos:Concept ; e:p " + "(" * 50_000 + ")" * 50_000 + " .\n"
    assert len(read_ontology(put(nested), "turtle")) == 1
    with pytest.raises(DataError, match="not turtle"):
        read_ontology(put(PREFIXES + "e:a e:p " + "[ e:p " * 50_000), "turtle")


# VmHWM, not ru_maxrss: the latter begins at what the parent had when it forked.
CHILD = """
import sys
from pathlib import Path
from ontodex.errors import DataError
from ontodex.ontology.open import read_ontology
for argument in sys.argv[1:]:
    path, name = argument.split("=")
    try:
        read_ontology(Path(path), name)
    except DataError:
        pass
status = Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_hostile_files_stay_within_300_mb(tmp_path):
    body = f'<rdf:RDF {RDF}><skos:Concept rdf:about="http://e/&a8;"/></rdf:RDF>'
    files = {
        "rdfxml": bomb("rdf:RDF", body),
        "mesh-xml": bomb("DescriptorRecordSet", "<DescriptorRecordSet>&a8;</DescriptorRecordSet>"),
        "jsonld": '{"@id":' * 1_000_000,
        "json": "[" * 1_000_000,
        "turtle": PREFIXES + "e:a e:p " + "(" * 100_000,
        "obo": "[Term]\nid: a\nname: " + " {a=" * 200_000 + "}\n",
    }
    arguments = []
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        arguments.append(f"{tmp_path / name}={name}")
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(bytes(300 * 2**20)))
    arguments.append(f"{tmp_path / 'zeros.gz'}=turtle")
    command = [sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 300


@pytest.mark.parametrize(
    "text",
    [
        '[{"id": "a", "label": "\\ud800"}]',
        '{"a\\udfff": {"label": "x"}}',
        '{"a": {"label": "\\udfff"}, "a": {"label": "x"}}',
        b'[{"id": "\xed\xa0\x80"}]',
    ],
    ids=["name", "id", "repeated", "bytes"],
)  # fmt: skip
def test_half_a_surrogate_pair_in_json_is_refused_because_no_file_can_store_it(text, put):
    with pytest.raises(DataError, match="not UTF-8"):
        read_ontology(put(text))


def test_a_whole_surrogate_pair_in_json_is_one_character(put):
    assert read_ontology(put('[{"id": "a", "label": "\\ud83d\\ude00"}]')).name("a") == "\U0001f600"


def test_a_number_of_thousands_of_digits_in_json_is_refused(put):
    with pytest.raises(DataError, match="cannot be read"):
        read_ontology(put('[{"id": %s}]' % ("9" * 5_000)))
