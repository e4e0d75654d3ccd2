"""Admit the documents of an input to `ontodex index`: sound ones in blocks, the others listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from ontodex.corpora.open import DocReader
from ontodex.corpora.parsing.json_objects import dump_json
from ontodex.errors import DataError
from ontodex.types import Doc

BLOCK_TEXT = 32 * 2**20  # characters: a block of very long documents has fewer of them


class Admission:
    """Admits the documents that a reader gives, and writes rejected records to `rejects`."""

    def __init__(self, reading: DocReader, rejects: IO[bytes], name: str) -> None:
        self._reading, self._rejects, self._name = reading, rejects, name
        self.n_docs = 0
        self.n_rejected = 0

    def read_blocks(self, size: int) -> Iterator[list[Doc]]:
        """Yield the admitted documents, `size` at a time."""
        block: list[Doc] = []
        n_characters = 0
        for doc in self._read_sound():
            if len(block) == size or n_characters > BLOCK_TEXT:
                yield block
                block, n_characters = [], 0
            block.append(doc)
            n_characters += len(doc.text)
            self.n_docs += 1
        if block:
            yield block

    def _read_sound(self) -> Iterator[Doc]:
        """Yield the documents that have content and an id of their own."""
        known: set[str] = set()
        for doc in self._read_valid():
            if doc.id in known:
                self._reject(self._reading.line, "a document with this id came before", doc.id)
                continue
            known.add(doc.id)
            if doc.kind == "text" and not doc.text.strip():
                self._reject(self._reading.line, "no text", doc.id)
                continue
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

        An error of the file as a whole is one of the input.
        """
        if error.line is None:
            return error.path is not None and error.path.parent == self._reading.path
        return error.line == self._reading.line

    def _reject(self, line: int | None, reason: str, id_: str | None) -> None:
        record = {"input": self._name, "line": line, "id": id_, "reason": reason}
        self._rejects.write(dump_json(record).encode() + b"\n")
        self.n_rejected += 1
