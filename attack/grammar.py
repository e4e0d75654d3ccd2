"""Generate valid and almost valid files of every corpus and ontology format.

Each format has a small grammar of its records, with values of the wrong type now and then. Formats
of several files, and binary ones, are written by ontodex itself. `Source.records` sets the size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from ontodex.corpora.open import write_docs
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import FORMATS as ONTOLOGY_FORMATS
from ontodex.ontology.open import write_ontology
from ontodex.types import Doc

Files = dict[str, bytes]  # name -> content; the first is the file, or in the folder, that is read


class Source(Random):
    """Random choices; `records` is the number of records of a file, None for a few."""

    def __init__(self, seed: int, records: int | None = None) -> None:
        super().__init__(seed)
        self.records = records

    def count(self) -> int:
        return self.records or self.randrange(1, 6)


WORDS = (
    "rain",
    "river",
    "Größe",
    "数据",
    "a",
    "x-y",
    "D012345",
    "42",
    "-1",
    "1e999",
    "",
    " ",
    "é\u0301",
)
TAGS = ("en", "de", "fr", "und", "x-aaaa", "zh-Hans", "EN")


def _word(r: Source) -> str:
    return r.choice(WORDS) if r.random() < 0.5 else f"w{r.randrange(50)}"


def _text(r: Source) -> str:
    return " ".join(_word(r) for _ in range(r.randrange(1, 12)))


def _id(r: Source) -> str:
    return f"c{r.randrange(10 * r.records if r.records else 12)}"


def _many(r: Source, make: Callable[[Source], str], most: int = 6) -> list[str]:
    return [make(r) for _ in range(r.randrange(most))]


def _json(r: Source, depth: int = 3) -> Any:
    kind = r.randrange(8 if depth else 6)
    if kind == 6:
        return [_json(r, depth - 1) for _ in range(r.randrange(4))]
    if kind == 7:
        return {_word(r): _json(r, depth - 1) for _ in range(r.randrange(4))}
    return (None, r.random() < 0.5, r.randrange(-5, 99), r.random(), _text(r), _word(r))[kind]


def _jsonl(r: Source, record: Callable[[Source], Any]) -> bytes:
    lines = [json.dumps(record(r), ensure_ascii=r.random() < 0.5) for _ in range(r.count())]
    return ("\n".join(lines) + "\n" * r.randrange(2)).encode()


def _shuffle(r: Source, record: dict[str, Any]) -> dict[str, Any]:
    """Drop a key of a small file now and then, or give it a value of any type."""
    if r.records is None and r.random() < 0.3:
        key = r.choice(list(record))
        if r.random() < 0.4:
            del record[key]
        else:
            record[key] = _json(r)
    return record


def _make_jsonl(r: Source) -> bytes:
    return _jsonl(r, lambda r: _shuffle(r, {
        "id": _id(r), "title": _text(r), "text": _text(r), "labels": _many(r, _id),
        "keywords": _many(r, _word), "metadata": {_word(r): _json(r)},
    }))  # fmt: skip


def _make_annif_json(r: Source) -> bytes:
    return _jsonl(r, lambda r: _shuffle(r, {
        "document_id": _id(r), "text": _text(r), "metadata": {_word(r): _word(r)},
        "subjects": [{"uri": f"http://e/{_id(r)}", "label": _word(r)} for _ in range(2)],
    }))  # fmt: skip


def _make_xmc_raw(r: Source) -> bytes:
    return _jsonl(r, lambda r: _shuffle(r, {
        "uid": _id(r), "title": _text(r), "content": _text(r),
        "target_ind": [r.randrange(4) for _ in range(3)], "target_rel": [1.0, 0.5, r.random()],
    }))  # fmt: skip


def _make_eurlex(r: Source) -> bytes:
    return _jsonl(r, lambda r: _shuffle(r, {
        "celex_id": _id(r), "title": _text(r), "header": _text(r), "recitals": _text(r),
        "main_body": _many(r, _text), "attachments": _text(r), "concepts": _many(r, _id),
    }))  # fmt: skip


def _make_bioasq(r: Source) -> bytes:
    articles = [
        json.dumps(_shuffle(r, {
            "pmid": str(r.randrange(99)), "title": _text(r), "abstractText": _text(r),
            "journal": _word(r), "year": "2020", "meshMajor": _many(r, _word),
        }))
        for _ in range(r.count())
    ]  # fmt: skip
    end = r.choice(("", "\n"))
    return ('{"articles":[' + end + f",{end}".join(articles) + end + "]}").encode()


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _make_medline(r: Source) -> bytes:
    encoding = r.choice(("utf-8", "utf-8", "iso-8859-1", "utf-7"))
    doctype = (
        '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM" "http://e/x.dtd">' if r.random() < 0.3 else ""
    )
    parts = [f'<?xml version="1.0" encoding="{encoding}"?>\n{doctype}<PubmedArticleSet>\n']
    for _ in range(r.count()):
        headings = "".join(
            f'<MeshHeading><DescriptorName UI="D{r.randrange(9)}" MajorTopicYN="Y">x</DescriptorName>'
            f'<QualifierName UI="Q{r.randrange(3)}"/></MeshHeading>'
            for _ in range(r.randrange(3))
        )
        parts.append(
            f'<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM"><PMID Version="'
            f'{r.randrange(1, 4)}">{r.randrange(9)}</PMID><Article><Journal><JournalIssue><PubDate>'
            f"<Year>{r.randrange(1900, 2030)}</Year></PubDate></JournalIssue><Title>{_word(r)}</Title>"
            f"</Journal><ArticleTitle>{_escape(_text(r))}<i>x</i></ArticleTitle><Abstract>"
            f'<AbstractText Label="METHODS">{_escape(_text(r))}</AbstractText></Abstract>'
            f"<Language>eng</Language></Article><MeshHeadingList>{headings}</MeshHeadingList>"
            f'<KeywordList Owner="NOTNLM"><Keyword>{_word(r)}</Keyword></KeywordList>'
            "</MedlineCitation></PubmedArticle>\n"
        )
    if r.random() < 0.4:
        parts.append(
            f"<DeleteCitation><PMID Version='1'>{r.randrange(9)}</PMID></DeleteCitation>\n"
        )
    return ("".join(parts) + "</PubmedArticleSet>\n").encode()


def _lines(r: Source, line: Callable[[Source], str], head: str = "") -> bytes:
    return (head + "".join(line(r) + "\n" for _ in range(r.count()))).encode()


def _cell(r: Source, mark: str = ",") -> str:
    text = _text(r)
    return '"' + text.replace('"', '""') + '"' if mark == "," and r.random() < 0.5 else text


def _address(r: Source) -> str:
    return r.choice(("<http://e/%s>", "http://e/%s")) % _id(r)


def _sparse(r: Source) -> str:
    labels = ",".join(str(r.randrange(4)) for _ in range(r.randrange(3)))
    return labels + "".join(
        f" {i}:{r.random():.3f}" for i in sorted({r.randrange(6) for _ in "abc"})
    )


CORPORA: dict[str, Callable[[Source], bytes]] = {
    "jsonl": _make_jsonl,
    "annif-json": _make_annif_json,
    "xmc-raw": _make_xmc_raw,
    "eurlex57k": _make_eurlex,
    "bioasq": _make_bioasq,
    "medline": _make_medline,
    "csv": lambda r: _lines(
        r, lambda r: f"{_id(r)},{_cell(r)},{_id(r)}|{_id(r)}", "id,text,labels\n"
    ),
    "tsv": lambda r: _lines(
        r, lambda r: f"{_id(r)}\t{_cell(r, ' ')}\t{_id(r)}", "id\ttext\tlabels\n"
    ),
    "annif-csv": lambda r: _lines(
        r, lambda r: f"{_cell(r)},<http://e/{_id(r)}> <http://e/{_id(r)}>", "text,subject_uris\n"
    ),
    "annif-tsv": lambda r: _lines(r, lambda r: f"{_text(r)}\t{_address(r)} {_address(r)}"),
    "xmc": lambda r: _lines(r, _sparse, f"{r.randrange(1, 6)} 6 4\n"),
    "libmultilabel-svm": lambda r: _lines(r, _sparse),
    "fasttext": lambda r: _lines(r, lambda r: f"__label__{_id(r)} __label__{_id(r)} {_text(r)}"),
    "pecos": lambda r: _lines(r, lambda r: f"{r.randrange(9)}::0.5,{r.randrange(9)}\t{_text(r)}"),
    "libmultilabel": lambda r: _lines(r, lambda r: f"{_id(r)}\t{_id(r)} {_id(r)}\t{_text(r)}"),
}
# Formats of several files or of binary files: written by ontodex, then mutated.
WRITTEN = {
    "corpus": "folder", "parquet": "docs.parquet", "pecos-npz": "X.a.npz", "annif-folder": "folder",
    "attentionxml": "a_texts.txt", "xmc-matrix": "a_X_Xf.txt",
}  # fmt: skip
FEATURES = ("pecos-npz", "xmc-matrix")  # formats that store features instead of texts

_TURTLE = (
    "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
    "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n@prefix e: <http://e/> .\n"
)


def _make_turtle(r: Source) -> bytes:
    def line(r: Source) -> str:
        facts = [f"e:{_id(r)} a skos:Concept"]
        for _ in range(r.randrange(5)):
            literal = json.dumps(_text(r)) + (f"@{r.choice(TAGS)}" if r.random() < 0.7 else "")
            node = f"e:{_id(r)}"
            facts.append(r.choice((
                f"skos:prefLabel {literal}", f"skos:altLabel {literal}", f"skos:broader {node}",
                f"skos:narrower {node}", f"skos:inScheme {node}", f"skos:topConceptOf {node}",
                f"skos:definition {literal}", "owl:deprecated true", f"rdfs:subClassOf {node}",
                f"skos:notation {literal}", f"skos:member {node}", f"a {node}",
                "rdfs:subClassOf skos:Concept",
            )))  # fmt: skip
        return " ; ".join(facts) + " ."

    return _lines(r, line, _TURTLE)


def _make_json(r: Source) -> bytes:
    def record(r: Source) -> dict[str, Any]:
        return _shuffle(r, {
            "id": _id(r), "names": {r.choice(TAGS): _text(r)}, "synonyms": {"en": _many(r, _word)},
            "parents": _many(r, _id), "definition": _text(r), "notation": _word(r),
            "deprecated": r.random() < 0.2, "replaced_by": _id(r), "positions": ["A01.1"],
        })  # fmt: skip

    records = [record(r) for _ in range(r.count())]
    kind = r.randrange(4)
    if kind == 0:
        return json.dumps(records).encode()
    if kind == 1:
        return json.dumps({_id(r): {"label": _word(r), "alt_labels": _many(r, _word),
                                    "parents": _many(r, _id)} for _ in range(3)}).encode()  # fmt: skip
    head = {"version": 1, "categories": {_word(r): _many(r, _id)}, "retired": {_id(r): ""}}
    if kind == 2:
        return json.dumps(_shuffle(r, {**head, "concepts": records})).encode()
    lines = ",\n".join(map(json.dumps, records))
    return (json.dumps(head)[:-1] + ', "concepts": [\n' + lines + "\n]}\n").encode()


def _make_obo(r: Source) -> bytes:
    def stanza(r: Source) -> str:
        return (
            f"\n[Term]\nid: {_id(r)}\nname: {_text(r)} ! x\n"
            + "".join(f'synonym: "{_word(r)}" EXACT []\n' for _ in range(r.randrange(3)))
            + "".join(f"is_a: {_id(r)} {{a=b}} ! x\n" for _ in range(r.randrange(3)))
            + f'def: "{_word(r)}\\n" []\nalt_id: {_id(r)}\nis_obsolete: {r.choice(("true", "false"))}'
        )

    return _lines(r, stanza, "format-version: 1.4\n")


def _make_mesh_xml(r: Source) -> bytes:
    def record(r: Source) -> str:
        return (
            f"<DescriptorRecord><DescriptorUI>{_id(r)}</DescriptorUI><DescriptorName><String>"
            f"{_escape(_text(r))}</String></DescriptorName><TreeNumberList><TreeNumber>A0{r.randrange(9)}"
            f".{r.randrange(9)}</TreeNumber></TreeNumberList><ConceptList><Concept><ScopeNote>x"
            f"</ScopeNote><TermList><Term><String>{_word(r)}</String></Term></TermList></Concept>"
            "</ConceptList></DescriptorRecord>"
        )

    return (
        b'<?xml version="1.0"?>\n<DescriptorRecordSet>\n'
        + _lines(r, record)
        + (b"</DescriptorRecordSet>\n")
    )


def _make_mesh_ascii(r: Source) -> bytes:
    def record(r: Source) -> str:
        return (
            f"*NEWRECORD\nRECTYPE = D\nMH = {_text(r)}\nUI = {_id(r)}\nMN = A01.{r.randrange(9)}\n"
            f"ENTRY = {_word(r)}|T|x\nPRINT ENTRY = {_word(r)}\nMS = {_text(r)}\n"
        )

    return _lines(r, record)


def _make_rdfxml(r: Source) -> bytes:
    def record(r: Source) -> str:
        return (
            f'<skos:Concept rdf:about="http://e/{_id(r)}"><skos:prefLabel xml:lang="{r.choice(TAGS)}">'
            f'{_escape(_text(r))}</skos:prefLabel><skos:broader rdf:resource="http://e/{_id(r)}"/>'
            "</skos:Concept>"
        )

    return (
        b'<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
        b' xmlns:skos="http://www.w3.org/2004/02/skos/core#">\n'
        + _lines(r, record)
        + b"</rdf:RDF>\n"
    )


def _make_jsonld(r: Source) -> bytes:
    skos = "http://www.w3.org/2004/02/skos/core#"
    graph = [
        _shuffle(r, {
            "@id": f"http://e/{_id(r)}", "@type": "skos:Concept",
            "skos:prefLabel": {"@value": _text(r), "@language": r.choice(TAGS)},
            "skos:broader": {"@id": f"http://e/{_id(r)}"},
        })
        for _ in range(r.count())
    ]  # fmt: skip
    return json.dumps({"@context": {"skos": skos}, "@graph": graph}).encode()


def _make_ntriples(r: Source) -> bytes:
    skos = "http://www.w3.org/2004/02/skos/core#"
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

    def line(r: Source) -> str:
        node, other = f"<http://e/{_id(r)}>", f"<http://e/{_id(r)}>"
        return (
            f"{node} <{rdf}type> <{skos}Concept> .\n{node} <{skos}broader> {other} .\n"
            f"{node} <{skos}prefLabel> {json.dumps(_text(r))}@{r.choice(TAGS)} ."
        )

    return _lines(r, line)


ONTOLOGIES: dict[str, Callable[[Source], bytes]] = {
    "json": _make_json,
    "turtle": _make_turtle,
    "ntriples": _make_ntriples,
    "rdfxml": _make_rdfxml,
    "jsonld": _make_jsonld,
    "obo": _make_obo,
    "mesh-xml": _make_mesh_xml,
    "mesh-ascii": _make_mesh_ascii,
    "mesh-trees": lambda r: _lines(r, lambda r: f"{_word(r)}x;A0{r.randrange(9)}.{r.randrange(9)}"),
    "mesh-tsv": lambda r: _lines(
        r, lambda r: f"{_id(r)}\t{_word(r)}\t{_word(r)}|x\tA01.{r.randrange(9)}"
    ),
    "annif-csv": lambda r: _lines(
        r,
        lambda r: f"http://e/{_id(r)},{_cell(r)},{_cell(r)},{_word(r)}x",
        "uri,label_en,label_de,notation\n",
    ),
    "annif-tsv": lambda r: _lines(r, lambda r: f"<http://e/{_id(r)}>\t{_text(r)}\t{_word(r)}"),
    "edges": lambda r: _lines(r, lambda r: f"{_id(r)}\t{_id(r)}"),
    "labels": lambda r: _lines(r, _text),
}


def generate_corpus(format: str, r: Source, folder: Path) -> Files:
    """Return a small corpus of a format; the folder is for formats that ontodex has to write."""
    if format in CORPORA:
        files = {"docs": CORPORA[format](r)}
        if format == "xmc-raw" and r.random() < 0.5:
            files["lbl.json"] = _jsonl(r, lambda r: {"uid": _id(r), "title": _text(r)})
        return files
    docs = [
        Doc(str(i), {"text": "x" + _text(r)}, labels=tuple({_id(r), _id(r)}))
        if format not in FEATURES
        else Doc(str(i), labels=("0", "2"), features={r.randrange(5): 1.0, 5: r.random()})
        for i in range(3)
    ]
    target = folder / WRITTEN[format]
    write_docs(docs, target, format)
    return read_files(target)


def generate_ontology(format: str, r: Source, folder: Path) -> Files:
    """Return a small ontology of a format, from its grammar or, now and then, from the writer."""
    if ONTOLOGY_FORMATS[format].write is None or r.random() < 0.8:
        return {"ontology": ONTOLOGIES[format](r)}
    concepts = [
        Concept(_id(r), {r.choice(TAGS[:5]): "x" + _text(r)}, parents=_many(r, _id))
        for _ in range(r.count())
    ]
    write_ontology(build_ontology(concepts), folder / "ontology", format)
    return {"ontology": (folder / "ontology").read_bytes()}


def read_files(target: Path) -> Files:
    """Return the files of a folder, or those beside a file, with the file itself first."""
    if target.is_dir():
        return {
            f"{target.name}/{file.name}": file.read_bytes() for file in sorted(target.iterdir())
        }
    beside = sorted(file for file in target.parent.iterdir() if file != target and file.is_file())
    return {file.name: file.read_bytes() for file in (target, *beside)}


def make_benign(kind: str, format: str, size: int, folder: Path) -> Files:
    """Return valid files of about `size` bytes, as a user has them."""
    with TemporaryDirectory(dir=folder) as name:
        target = Path(name) / WRITTEN.get(format, "benign")
        if kind == "corpus" and format not in ("eurlex57k", "xmc", "libmultilabel-svm"):
            write_docs(_make_docs(format, size), target, format)
        elif kind == "ontology" and ONTOLOGY_FORMATS[format].write is not None:
            write_ontology(build_ontology(_make_concepts(size)), target, format)
        else:
            grammars = CORPORA if kind == "corpus" else ONTOLOGIES
            target.write_bytes(grammars[format](Source(1, records=size // 70)))
        return read_files(target)


def _make_docs(format: str, size: int) -> Iterator[Doc]:
    if format in FEATURES:
        for i in range(size // 50):
            yield Doc(str(i), labels=(str(i % 97), "7"), features={i % 89: 1.0, 90: 0.5})
    text = ("some words about rain and rivers " * 6).strip()
    for i in range(size // 250 if format not in FEATURES else 0):
        yield Doc(str(i), {"text": text}, labels=(f"{i % 97}", "7"))


def _make_concepts(size: int) -> Iterator[Concept]:
    for i in range(size // 120):
        parents = [f"http://e/c{i // 8}"] if i else []
        yield Concept(f"http://e/c{i}", {"en": f"Name of {i}"}, {"en": [f"synonym {i}"]}, parents)
