"""Admit the documents of a file to `ontodex index`: sound ones in blocks, the others listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from ontodex.corpora.detect import detect_format
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.formats import load_format
from ontodex.corpora.open import DocReader, read_docs
from ontodex.errors import DataError
from ontodex.io.files import hash_file, open_atomic, write_text
from ontodex.io.progress import track
from ontodex.runs.index.workers import Block
from ontodex.types import Corpus, Doc

BLOCK_TEXT = 32 * 2**20  # characters: a block of very long documents has fewer of them


def digest_source(source: Path, mapping: FieldMapping = NO_MAPPING) -> str:
    """Return a digest of the content of all files that are read, and of the columns."""
    format = detect_format(source, mapping)
    module = load_format(format)
    files = module.sources(source) if hasattr(module, "sources") else [source]
    # In a folder of documents the file names are their ids.
    names = [str(file.relative_to(source)) if source.is_dir() else "" for file in files]
    content: list[object] = [format, names, [hash_file(file) for file in files]]
    content += [mapping.to_dict()] if mapping else []
    return sha256(json.dumps(content).encode()).hexdigest()


def admit_documents(
    source: Path, parts: Path, block: int, mapping: FieldMapping = NO_MAPPING
) -> tuple[Corpus, list[Block], int]:
    """Return the admitted documents, their blocks, and how many were rejected.

    The input is read once; a resumed job takes it from `parts`.
    """
    about = parts / "input.json"
    if not about.exists():
        reading = read_docs(source, mapping=mapping)
        with open_atomic(parts / "rejects.jsonl") as file:
            admission = _Admission(reading, file, block)
            docs = track(admission.docs(), f"reading {source.name}")
            Corpus.write(docs, parts / "input", n_features=reading.n_features)
        # Written last: where this file exists, the other two are complete.
        write_text(
            about, json.dumps({"starts": admission.starts, "rejected": admission.n_rejected}) + "\n"
        )
    found = json.loads(about.read_text(encoding="utf-8"))
    corpus = Corpus.open(parts / "input")
    edges = pairwise([*found["starts"], len(corpus)])
    blocks = [Block(number, start, end) for number, (start, end) in enumerate(edges)]
    return corpus, blocks, found["rejected"]


class _Admission:
    """Admits documents, notes where blocks begin, and lists the rejected records."""

    def __init__(self, reading: DocReader, rejects: IO[bytes], block: int) -> None:
        self._reading, self._rejects, self._block = reading, rejects, block
        self.starts: list[int] = []
        self.n_rejected = 0

    def docs(self) -> Iterator[Doc]:
        """Yield the documents that have content and an id of their own."""
        known: set[str] = set()
        n_docs = size = 0
        for doc in self._read_valid():
            if doc.id in known:
                self._reject(self._reading.line, "a document with this id came before", doc.id)
                continue
            known.add(doc.id)
            if doc.kind == "text" and not doc.text.strip():
                self._reject(self._reading.line, "no text", doc.id)
                continue
            if not self.starts or n_docs - self.starts[-1] == self._block or size > BLOCK_TEXT:
                self.starts.append(n_docs)
                size = 0
            n_docs, size = n_docs + 1, size + len(doc.text)
            yield doc

    def _read_valid(self) -> Iterator[Doc]:
        """Yield the documents whose record can be read."""
        while True:
            try:
                yield next(self._reading)
            except StopIteration:
                return
            except DataError as error:
                if not self._is_of_record(error):
                    raise
                place = f"{error.path}:{error.line}: "
                self._reject(error.line, str(error).removeprefix(place), None)

    def _is_of_record(self, error: DataError) -> bool:
        """Return whether an error is of one record: a line, or a file of a folder of documents.

        An error of the file as a whole ends the job.
        """
        if error.line is None:
            return error.path is not None and error.path.parent == self._reading.path
        return error.line == self._reading.line

    def _reject(self, line: int | None, reason: str, id_: str | None) -> None:
        record: dict[str, Any] = {"line": line, "id": id_, "reason": reason}
        self._rejects.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        self.n_rejected += 1
