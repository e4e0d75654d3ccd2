"""Inputs of commands at their limits, for bench/limits.py and tests/bench/test_limits.py.

Each attempt makes an input of the largest size plus `extra`, and has it read: with 0 it is
accepted, with 1 it is refused.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from ontodex.config import MAX_BYTES, read
from ontodex.corpora import encoding, extract_process, noise
from ontodex.corpora.extract import extract_file
from ontodex.corpora.formats import bioasq
from ontodex.corpora.open import read_docs
from ontodex.corpora.parsing.parquet_pages import measure_columns
from ontodex.corpora.text_argument import read_text
from ontodex.errors import OntodexError
from ontodex.features import vectors
from ontodex.io import files, xml
from ontodex.ontology import graph, table
from ontodex.ontology.graph import Concept, build_ontology, compute_ancestors
from ontodex.runs.index import job
from ontodex.serve.http import json_limits
from ontodex.types import Corpus, Doc
from ontodex.types.record_batches import MAX_FEATURES

MIB = 2**20


@dataclass(frozen=True)
class FileLimit:
    """The largest input of an operation, the words of the refusal above it, and an attempt."""

    operation: str
    largest: str
    refusal: str
    attempt: Callable[[int, Path], None]  # (extra, an empty folder)
    is_slow: bool = False


def read_long_text(extra: int, folder: Path) -> None:
    path = folder / "long.txt"
    path.write_text("a " * (encoding.MAX_CHARACTERS // 2) + "a" * extra)
    read_text(str(path))


def extract_long_text(extra: int, folder: Path) -> None:
    path = folder / "long.html"
    path.write_text("<p>" + "a " * (encoding.MAX_CHARACTERS // 2 - 1) + "aa" + "a" * extra)
    asyncio.run(extract_file(path, path.name))


def extract_large_docx(extra: int, folder: Path) -> None:
    import docx

    path, document = folder / "large.docx", docx.Document()
    document.add_paragraph("some words")
    document.save(str(path))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        size = sum(item.file_size for item in archive.infolist())
        archive.writestr("filler", bytes(extract_process.MAX_OUTPUT - size + extra))
    asyncio.run(extract_file(path, path.name))


def extract_many_documents(extra: int, folder: Path) -> None:
    path = folder / "many.jsonl"
    with path.open("w") as file:
        for number in range(extract_process.MAX_DOCUMENTS + extra):
            file.write(json.dumps({"id": str(number), "text": "some words", "labels": []}) + "\n")
    asyncio.run(extract_file(path, path.name))


def unpack(extra: int, folder: Path) -> None:
    path = folder / "bomb.gz"
    with gzip.open(path, "wb", 1) as packed:
        packed.write(bytes(files.FREE + extra))
    with files.open_bytes(path) as file:
        while file.read(MIB):
            pass


def unpack_parquet(extra: int, folder: Path) -> None:
    """Read 64 texts that take that much memory together; their pages have a few bytes more."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, lengths = folder / "docs.parquet", [files.FREE_TABLE // 64 - 100] * 64
    for _ in range(2):  # the second time with the length that the first one lacks
        texts = {"text": ["a" * length for length in lengths]}
        pq.write_table(pa.table(texts), path, compression="zstd", use_dictionary=False)
        del texts
        found = measure_columns(pq.ParquetFile(path), path)["text"].n_bytes
        lengths[0] += files.FREE_TABLE + extra - found
    assert sum(1 for _ in read_docs(path)) == 64


def read_long_row(extra: int, folder: Path) -> None:
    """Read a row with a list of numbers, of which each takes 24 bytes and a bit."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = np.arange((files.MAX_LINE * 8 - 1000) // 193 + 1000 * extra)
    lists = pa.ListArray.from_arrays([0, len(numbers)], numbers)
    pq.write_table(pa.table({"text": ["a"], "numbers": lists}), folder / "docs.parquet")
    assert sum(1 for _ in read_docs(folder / "docs.parquet")) == 1


def read_long_line(extra: int, folder: Path) -> None:
    path = folder / "long.txt"
    path.write_bytes(b"a" * (files.MAX_LINE - 1 + extra) + b"\n")
    assert len(list(files.read_raw_lines(path))) == 1


def read_long_element(extra: int, folder: Path) -> None:
    path, around = folder / "long.xml", b"<e></e>"
    text = b"a" * (xml.MAX_TEXT - len(around) + extra)
    path.write_bytes(around[:3] + text + around[3:])
    assert len(list(xml.read_elements(path, ("e",)))) == 1


def read_much_markup(extra: int, folder: Path) -> None:
    path, closing = folder / "tags.xml", b"</e></r>"
    text = b"a" * (xml.UNCOUNTED + xml.PROLOG)
    tags = b"<b/>" * (xml.MAX_MARKUP - closing.count(b"<") + extra)
    path.write_bytes(b"<r><e>" + text + tags + closing)
    assert len(list(xml.read_elements(path, ("e",)))) == 1


def read_bioasq(extra: int, folder: Path) -> None:
    path = folder / "articles.json"
    article = {"pmid": "1", "title": "A title", "abstractText": "", "meshMajor": ["Fish"]}
    size = len(json.dumps({"articles": [article]}, indent=1))
    article["abstractText"] = "a" * (bioasq.LARGEST_WHOLE - size + extra)
    path.write_text(json.dumps({"articles": [article]}, indent=1))
    assert len(list(read_docs(path))) == 1


def longest_chain() -> int:
    """Return the most concepts, each the parent of the next, that have not too many pairs."""
    return (1 + math.isqrt(1 + 8 * graph.MAX_PAIRS)) // 2  # n (n - 1) / 2 pairs


def find_ancestors(extra: int, folder: Path) -> None:
    names = [str(number) for number in range(longest_chain() + extra)]
    parents = [[], *([name] for name in names[:-1])]
    concepts = [Concept(name, parents=above) for name, above in zip(names, parents, strict=True)]
    compute_ancestors(build_ontology(concepts))


def write_wide_table(extra: int, folder: Path) -> None:
    side = math.isqrt(table.MAX_CELLS)
    names = [{f"x-{number}": "name"} for number in range(side)]
    names[0] |= {f"y-{number}": "name" for number in range(extra)}
    concepts = [Concept(str(number), some) for number, some in enumerate(names)]
    with (folder / "wide.csv").open("wb") as file:
        table.write_annif_csv(build_ontology(concepts), file)


def read_wide_vectors(extra: int, folder: Path) -> None:
    path = folder / "wide.txt"
    path.write_text("word" + " 1" * (vectors.MAX_SIZE + extra) + "\n")
    vectors.read_vectors(path)


def read_long_vector_line(extra: int, folder: Path) -> None:
    path = folder / "long.txt"
    path.write_text("1 2\n" + "w" * (vectors.MAX_LINE - 5 + extra) + " 1 2\n")
    vectors.read_vectors(path)


def flip_labels(extra: int, folder: Path) -> None:
    side = math.isqrt(noise.MAX_BITS)
    noise.corrupt(csr_array((side, side + extra)), flip=1e-6)


def read_many_features(extra: int, folder: Path) -> None:
    path, width = folder / "features.txt", MAX_FEATURES + extra
    path.write_text(f"1 {width} 1\n0 {width - 1}:1.0\n")
    docs = read_docs(path, "xmc")
    Corpus.of(docs, n_features=docs.n_features)


def read_settings(extra: int, folder: Path) -> None:
    path = folder / "settings.toml"
    path.write_text("#" * (MAX_BYTES - 1 + extra) + "\n")
    read(path)


def start_workers(extra: int, folder: Path) -> None:
    """Ask for as many workers; there is no run, so that none is started."""
    try:
        job.index_documents(
            folder / "run", folder, folder / "o.csv", workers=job.MAX_WORKERS + extra
        )
    except OntodexError as error:
        if "workers" in str(error):
            raise


def nest(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def parse_nested(extra: int, folder: Path) -> None:
    json_limits.parse_body(nest(json_limits.BODY.depth + extra))


def parse_many(extra: int, folder: Path) -> None:
    json_limits.parse_body(b"[" + b"1," * (json_limits.BODY.values - 1 + extra) + b"1]")


def parse_digits(extra: int, folder: Path) -> None:
    json_limits.parse_body(b"[" + b"1" * (json_limits.BODY.digits + extra) + b"]")


def check_metadata(value: object) -> None:
    json_limits.check_document(Doc("id", {"text": "words"}, (), (), {"key": value}))


def nest_metadata(extra: int, folder: Path) -> None:
    check_metadata(json.loads(nest(json_limits.METADATA.depth - 1 + extra)))


def fill_metadata(extra: int, folder: Path) -> None:
    check_metadata([1] * (json_limits.METADATA.values - 1 + extra))


def lengthen_metadata(extra: int, folder: Path) -> None:
    check_metadata("a" * (json_limits.MAX_METADATA - len('{"key": ""}') + extra))


def lengthen_id(extra: int, folder: Path) -> None:
    json_limits.check_document(Doc("i" * (json_limits.MAX_ID + extra), {"text": "words"}))


def add_fields(extra: int, folder: Path) -> None:
    names = map(str, range(json_limits.MAX_FIELDS + extra))
    json_limits.check_document(Doc("id", dict.fromkeys(names, "words")))


def add_keywords(extra: int, folder: Path) -> None:
    words = ("word",) * (json_limits.MAX_KEYWORDS + extra)
    json_limits.check_document(Doc("id", {"text": "words"}, words))


def list_file_limits() -> Iterator[FileLimit]:
    """Yield the limits of commands, and of files and JSON wherever they are read."""
    yield from list_text_limits()
    yield from list_format_limits()
    yield from list_command_limits()
    yield from list_json_limits()


def list_text_limits() -> Iterator[FileLimit]:
    """Yield the limits of texts, of uploads and of packed files."""
    characters = f"{encoding.MAX_CHARACTERS:,} characters"
    yield FileLimit(
        "`suggest`, `explain`: a text", characters, f"has more than {characters}", read_long_text
    )
    yield FileLimit(
        "a PDF, DOCX, HTML or text file, in a command or uploaded",
        characters,
        f"has more than {characters}",
        extract_long_text,
    )
    yield FileLimit(
        "a DOCX file, unpacked",
        f"{extract_process.MAX_OUTPUT // MIB} MiB",
        "unpacks to",
        extract_large_docx,
        is_slow=True,
    )
    yield FileLimit(
        "an uploaded JSON-lines, CSV, TSV or XML file",
        f"{extract_process.MAX_DOCUMENTS:,} documents",
        f"has more than {extract_process.MAX_DOCUMENTS:,} documents",
        extract_many_documents,
        is_slow=True,
    )
    yield FileLimit(
        "any gzip, xz or bzip2 file, unpacked",
        f"{files.FREE // MIB} MiB, or {files.MAX_RATIO} times its size if that is more",
        f"unpacks to more than {files.FREE // MIB} MiB",
        unpack,
    )
    yield FileLimit(
        "a Parquet file, unpacked, with 16 bytes for each value",
        f"{files.FREE_TABLE // MIB} MiB, or {files.MAX_RATIO} times its size if that is more",
        f"takes more than {files.FREE_TABLE // MIB} MiB of memory",
        unpack_parquet,
    )
    yield FileLimit(
        "a row of a Parquet file, with 16 bytes for each value",
        f"{files.MAX_LINE // MIB} MiB",
        f"a row of more than {files.MAX_LINE // MIB} MiB",
        read_long_row,
    )
    yield FileLimit(
        "a line of a text file",
        f"{files.MAX_LINE // MIB} MiB with its end",
        f"a line of more than {files.MAX_LINE // MIB} MiB",
        read_long_line,
    )


def list_format_limits() -> Iterator[FileLimit]:
    """Yield the limits of single file formats."""
    yield FileLimit(
        "XML: one record and what follows it",
        f"{xml.MAX_TEXT // MIB} MiB",
        f"more than {xml.MAX_TEXT // MIB} MiB of text",
        read_long_element,
    )
    yield FileLimit(
        f"XML: one record, after its first {xml.UNCOUNTED // 2**10} KiB",
        f"{xml.MAX_MARKUP:,} tags, attributes and references",
        f"more than {xml.MAX_MARKUP:,} tags, attributes and references",
        read_much_markup,
    )
    yield FileLimit(
        "BioASQ without one article per line",
        f"{bioasq.LARGEST_WHOLE // MIB} MiB",
        f"larger than {bioasq.LARGEST_WHOLE // MIB} MiB",
        read_bioasq,
    )
    yield FileLimit(
        "features of a corpus",
        f"{MAX_FEATURES:,}",
        f"at most {MAX_FEATURES:,} are supported",
        read_many_features,
    )
    yield FileLimit(
        "a file of word vectors: numbers of one vector",
        f"{vectors.MAX_SIZE:,}",
        f"vectors of {vectors.MAX_SIZE + 1:,} numbers",
        read_wide_vectors,
    )
    yield FileLimit(
        "a file of word vectors: a line",
        f"{vectors.MAX_LINE:,} bytes",
        f"a line of over {vectors.MAX_LINE:,} bytes",
        read_long_vector_line,
    )


def list_command_limits() -> Iterator[FileLimit]:
    """Yield the limits of ontologies, of settings and of single commands."""
    yield FileLimit(
        "ontology: pairs of a concept and an ancestor",
        f"{graph.MAX_PAIRS:,} (a chain of {longest_chain():,} concepts)",
        "the ontology is too deep",
        find_ancestors,
        is_slow=True,
    )
    yield FileLimit(
        "`convert` of an ontology to an Annif CSV",
        f"{table.MAX_CELLS:,} concepts times languages",
        f"more than {table.MAX_CELLS:,} cells",
        write_wide_table,
        is_slow=True,
    )
    yield FileLimit(
        "`experiment`: label noise `flip`",
        f"{noise.MAX_BITS:,} documents times labels",
        "flip would draw a bit for each",
        flip_labels,
        is_slow=True,
    )
    yield FileLimit(
        "a file of settings",
        f"{MAX_BYTES:,} bytes",
        f"settings have at most {MAX_BYTES:,}",
        read_settings,
    )
    yield FileLimit(
        "`index --workers`",
        f"{job.MAX_WORKERS} processes",
        f"workers must be at most {job.MAX_WORKERS}",
        start_workers,
    )


def list_json_limits() -> Iterator[FileLimit]:
    """Yield the limits of JSON bodies, and of documents that are stored."""
    body, metadata = json_limits.BODY, json_limits.METADATA
    rows = (
        ("a JSON body: depth", f"{body.depth} levels",
         f"deeper than {body.depth} levels", parse_nested),
        ("a JSON body: keys and items", f"{body.values:,}",
         f"more than {body.values:,} keys", parse_many),
        ("a JSON body: a number", f"{body.digits} digits",
         f"more than {body.digits} digits", parse_digits),
        ("a stored document: depth of its metadata", f"{metadata.depth} levels",
         f"deeper than {metadata.depth} levels", nest_metadata),
        ("a stored document: keys and items of its metadata", f"{metadata.values:,}",
         f"more than {metadata.values:,} keys", fill_metadata),
        ("a stored document: its metadata as JSON", f"{json_limits.MAX_METADATA:,} characters",
         f"more than {json_limits.MAX_METADATA:,} characters", lengthen_metadata),
        ("a stored document: its id", f"{json_limits.MAX_ID:,} characters",
         f"at most {json_limits.MAX_ID:,} are taken", lengthen_id),
        ("a stored document: text fields", f"{json_limits.MAX_FIELDS}",
         f"at most {json_limits.MAX_FIELDS} are taken", add_fields),
        ("a stored document: keywords", f"{json_limits.MAX_KEYWORDS:,}",
         f"at most {json_limits.MAX_KEYWORDS:,} are taken", add_keywords),
    )  # fmt: skip
    for operation, largest, refusal, attempt in rows:
        yield FileLimit(operation, largest, refusal, attempt)


FILE_LIMITS = tuple(list_file_limits())
