"""Turn uploaded files into documents."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fastapi import UploadFile

from ontodex.corpora.encoding import FALLBACK, describe_guess
from ontodex.corpora.extract import EXTRACT_FOLDER, ExtractedFile, extract_file
from ontodex.corpora.extract_process import file_ending
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.label_names import MatchReport
from ontodex.errors import DataError, UnmappedTableError
from ontodex.io.temporary import remove_leftovers, temporary_folder
from ontodex.serve.http.json_limits import check_document
from ontodex.serve.prediction.concept_view import ConceptView
from ontodex.types import Doc

MAX_FILES = 100
# Of all files of a request, unpacked, because their documents are in memory until they are stored.
MAX_UPLOADED_TEXT = 100_000_000
UPLOAD_FOLDER = "ontodex-upload"  # in the system's folder for temporary files


def remove_abandoned_uploads() -> None:
    """Remove the uploaded files that a killed service left."""
    for name in (UPLOAD_FOLDER, EXTRACT_FOLDER):
        remove_leftovers(Path(tempfile.gettempdir()) / name)


@dataclass(frozen=True)
class Uploads:
    """The documents of all files, the rejected files with reasons, and warnings."""

    docs: list[Doc] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, str]] = field(default_factory=list)


async def read_uploads(
    files: Sequence[UploadFile],
    slots: asyncio.Semaphore,
    mapping: FieldMapping = NO_MAPPING,
    recorded: FieldMapping = NO_MAPPING,
    list_warnings: Callable[[Sequence[Doc]], list[str]] = lambda _: [],
) -> Uploads:
    """Read all files.

    `slots` limits how many files are read at the same time over all requests. `mapping` names the
    columns of tables; `recorded` those of the training documents. `list_warnings` returns what to
    say about the documents of a file. A file that does not fit into the text of a request beside
    the files before it is rejected.
    """
    found, room = Uploads(), MAX_UPLOADED_TEXT
    for count, file in enumerate(files):
        name = clean_file_name(file.filename or "")
        try:
            if count >= MAX_FILES:
                raise DataError(f"only {MAX_FILES} files are taken at a time")
            async with slots:
                read = await _read_upload(file, name, mapping, recorded, room)
        except UnmappedTableError as error:
            reason = f"{error}; say which to read: text_field, label_field, id_field"
            found.rejected.append({"file": name, "reason": reason, "columns": error.columns})
        except DataError as error:
            found.rejected.append({"file": name, "reason": str(error), "columns": []})
        else:
            found.docs.extend(read.docs)
            room -= read.size
            guessed = (doc.metadata.get("encoding") == FALLBACK for doc in read.docs)
            warnings = [*read.warnings, *([describe_guess()] if any(guessed) else [])]
            warnings += await asyncio.to_thread(list_warnings, read.docs)
            found.warnings.extend({"file": name, "warning": warning} for warning in warnings)
    return found


def match_labels(docs: Sequence[Doc], concepts: ConceptView) -> tuple[list[Doc], MatchReport]:
    """Return the documents with ids of concepts as labels, and how the labels were matched.

    Labels that are no concept of the run stay in the metadata as `unmatched_labels`.
    """
    if not any(doc.labels for doc in docs):
        return list(docs), MatchReport()
    matcher = concepts.make_matcher()
    matched = []
    for doc in docs:
        labels = matcher.match(doc.labels)
        known = tuple(label for label in labels if concepts.has(label))
        lost = [label for label in labels if label not in known]
        matched.append(keep_unmatched(replace(doc, labels=known), lost))
    return matched, matcher.report


def keep_unmatched(doc: Doc, labels: Sequence[str]) -> Doc:
    """Return the document with labels that are no concepts in its metadata."""
    if not labels:
        return doc
    return replace(doc, metadata={**doc.metadata, "unmatched_labels": list(labels)})


def clean_file_name(name: str) -> str:
    """Return the last part of a path without control characters, at most 200 characters."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    clean = "".join(letter for letter in last if letter.isprintable())
    return clean[-200:] or "unnamed"


async def _read_upload(
    file: UploadFile, name: str, mapping: FieldMapping, recorded: FieldMapping, room: int
) -> ExtractedFile:
    file_ending(name)  # refuses an unknown ending without starting a process
    with temporary_folder(Path(tempfile.gettempdir()) / UPLOAD_FOLDER) as folder:
        source = folder / "file"
        await asyncio.to_thread(_copy, file, source)
        found = await extract_file(source, name, mapping, recorded, room=room)
    for doc in found.docs:
        check_document(doc)
    return found


def _copy(file: UploadFile, path: Path) -> None:
    with path.open("wb") as target:
        shutil.copyfileobj(file.file, target)
