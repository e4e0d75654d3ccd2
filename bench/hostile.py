"""Hostile XML, RDF and gzip files: is each refused or read, in what time and memory?

    python bench/hostile.py

Each file is written to a temporary folder and read in a process of its own, which may take 300 MB
of address space beyond what the imported libraries take. tests/io/test_hostile_xml.py uses the same
files.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

ALLOWED_MB = 300

PUBMED_DOCTYPE = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2019//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_190101.dtd">\n'
)
RDF = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:skos="http://www.w3.org/2004/02/skos/core#"><skos:Concept rdf:about="http://e/1">'
    "<skos:prefLabel>{}</skos:prefLabel></skos:Concept></rdf:RDF>"
)


@dataclass(frozen=True)
class Case:
    """A file: its name, its bytes in blocks, what should become of it."""

    name: str
    outcome: Literal["read", "refused"]
    blocks: Callable[[], Iterable[bytes]]
    says: str = ""  # words of the refusal, or of the text read


def citation(title: str, *, prolog: str = "") -> str:
    """A PubMed file of one citation."""
    return (
        f"{prolog}<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article>"
        f"<ArticleTitle>{title}</ArticleTitle></Article></MedlineCitation></PubmedArticle>"
        "</PubmedArticleSet>"
    )


def laughs() -> str:
    """Ten entities, each ten times the one before: 10^9 words."""
    entities = ['<!ENTITY e0 "ha">']
    entities += [f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10)]
    return f"<!DOCTYPE r [{''.join(entities)}]>\n"


def attribute_lists() -> str:
    """Declared attributes: parsers compare each with all before it."""
    lists = "".join(f'<!ATTLIST PMID a{i} CDATA "v">' for i in range(50_000))
    return f"<!DOCTYPE PubmedArticleSet [{lists}]>\n"


def text(content: str) -> Callable[[], Iterable[bytes]]:
    return lambda: [content.encode()]


def repeat_block(before: bytes, block: bytes, times: int, after: bytes = b"") -> Iterable[bytes]:
    """`block` over and over, between a beginning and an end."""
    yield before
    for _ in range(times):
        yield block
    yield after


def huge(block: bytes, times: int) -> Callable[[], Iterable[bytes]]:
    """A title of many equal blocks."""
    before, after = citation("|").encode().split(b"|")
    return lambda: repeat_block(before, block, times, after)


def pack_zeros(compressor: Any) -> Iterable[bytes]:
    """40 MB that pack to almost nothing."""
    yield compressor.compress(b"<r>")
    for _ in range(40):
        yield compressor.compress(SPACES)
    yield compressor.flush()


def attributes(n: int) -> bytes:
    many = " ".join(f'a{i}=""' for i in range(n))
    return citation(f"<i {many}/>").encode()


SPACES = b" " * 2**20
QUADRATIC = f'<!DOCTYPE r [<!ENTITY a "{"a" * 100_000}">]>'
EXTERNAL = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
PARAMETER = '<!DOCTYPE r [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd"> %p;]>'
INCLUDE = '<x:include xmlns:x="http://www.w3.org/2001/XInclude" href="/etc/passwd" parse="text"/>'
UTF7 = '<?xml version="1.0" encoding="UTF-7"?>+ADwAIQ-DOCTYPE r +AFs-+AF0APg-'

CASES = [
    Case("PubMed's own DOCTYPE", "read", text(citation("fine", prolog=PUBMED_DOCTYPE)), "fine"),
    Case("a title of 12 MB", "read", huge(b"word " * 2**18, 10), "word"),
    Case("XInclude of a local file", "read", text(citation(f"in{INCLUDE}side")), "inside"),
    Case("billion laughs", "refused", text(citation("&e9;", prolog=laughs())), "DOCTYPE"),
    Case(
        "quadratic blowup",
        "refused",
        text(citation("&a;" * 20_000, prolog=QUADRATIC)),
        "DOCTYPE",
    ),
    Case("external entity", "refused", text(citation("&x;", prolog=EXTERNAL)), "DOCTYPE"),
    Case("parameter entity", "refused", text(citation("t", prolog=PARAMETER)), "DOCTYPE"),
    Case("attribute lists", "refused", text(citation("t", prolog=attribute_lists())), "DOCTYPE"),
    Case(
        "entity of a named DTD",
        "refused",
        text(citation("&copyright;", prolog=PUBMED_DOCTYPE)),
        "copyright",
    ),
    Case(
        "UTF-16 around a bomb",
        "refused",
        lambda: [citation("&e9;", prolog=laughs()).encode("utf-16")],
        "DOCTYPE",
    ),
    Case("UTF-16 without a mark", "refused", lambda: [citation("t").encode("utf-16-le")], "UTF-16"),
    Case("UTF-7 hiding a DOCTYPE", "refused", text(citation("t", prolog=UTF7)), "UTF-7"),
    Case("Latin-1 called UTF-8", "refused", lambda: [citation("é").encode("latin-1")], "encoding"),
    Case("NUL in text", "refused", text(citation("a\0b")), "character"),
    Case("truncated", "refused", lambda: [citation("t").encode()[:-19]], "Premature end"),
    Case("a million levels", "refused", lambda: repeat_block(b"", b"<i>" * 1000, 1000), "depth"),
    Case("a title of 40 MB", "refused", huge(SPACES, 40), "MiB of text"),
    Case(
        "a comment of 40 MB", "refused", lambda: repeat_block(b"<r><!--", SPACES, 40), "MiB of text"
    ),
    Case("a million attributes", "refused", lambda: [attributes(1_000_000)], "attributes"),
    Case("2 million elements", "refused", huge(b"<i/>" * 10_000, 200), "tags"),
    Case("2 million references", "refused", huge(b"&#65;" * 10_000, 200), "references"),
    Case(
        "a prolog of 1 MB",
        "refused",
        lambda: repeat_block(b"", b" " * 1024, 1024, b"<r/>"),
        "begin",
    ),
    Case(
        "gzip bomb, 1,000 times",
        "refused",
        lambda: pack_zeros(zlib.compressobj(wbits=31)),
        "decompression bomb",
    ),
    Case(
        "xz bomb, 6,000 times",
        "refused",
        lambda: pack_zeros(lzma.LZMACompressor(preset=0)),
        "decompression bomb",
    ),
    Case(
        "gzip cut in half",
        "refused",
        lambda: [gzip.compress(citation("t" * 1000).encode())[:60]],
        "cut off",
    ),
    Case("RDF/XML billion laughs", "refused", text(laughs() + RDF.format("&e9;")), "DOCTYPE"),
    Case("RDF/XML external entity", "refused", text(EXTERNAL + RDF.format("&x;")), "DOCTYPE"),
]


def read_here(path: Path) -> str:
    """The first characters of what a file says; RDF through the ontology reader."""
    from ontodex.io import xml

    if path.suffix == ".rdf":
        from ontodex.ontology.open import read_ontology

        return str(read_ontology(path, "rdfxml").names)
    found = ["".join(e.itertext()) for e in xml.read_elements(path, ["ArticleTitle"])]
    return " ".join(found)[:100]


def child(path: Path) -> None:
    """Read one file within the allowed memory and print what happened as JSON."""
    from ontodex.errors import DataError

    # What the libraries take is not the file's doing.
    import_module("lxml.etree")
    if path.suffix == ".rdf":
        import_module("ontodex.ontology.open")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ALLOWED_MB * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    start, cpu = time.perf_counter(), time.process_time()
    try:
        outcome, says = "read", read_here(path)
    except DataError as error:
        outcome, says = "refused", str(error)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    figures = {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak_mb()}
    print(json.dumps({"outcome": outcome, "says": says, **figures}))


def peak_mb() -> float:
    """Most memory this process has held. ru_maxrss would count the parent's before exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def try_case(case: Case, folder: Path) -> dict[str, float | str]:
    """Return the child's report on this file; a child that dies raises CalledProcessError."""
    path = folder / ("file.rdf" if case.name.startswith("RDF") else "file.xml")
    with path.open("wb") as file:
        file.writelines(case.blocks())
    size = path.stat().st_size
    answer = subprocess.check_output([sys.executable, __file__, "--child", str(path)])
    return {**json.loads(answer), "size": size}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return
    print("| file | bytes | outcome | seconds | CPU seconds | peak MB |\n|---|---|---|---|---|---|")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = try_case(case, Path(folder))
        assert found["outcome"] == case.outcome, (case.name, found)
        print(
            f"| {case.name} | {found['size']:,} | {found['outcome']} "
            f"| {found['seconds']:.2f} | {found['cpu_seconds']:.2f} | {found['peak_mb']:.0f} |"
        )


if __name__ == "__main__":
    main()
