"""Requests to the service at their limits, for bench/limits.py and tests/bench/test_limits.py.

Each request is of the largest size plus `extra`: with 0 the service answers it, with 1 it refuses.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_type_hints
from urllib.parse import urlencode

from pydantic import BaseModel

from ontodex.corpora import extract_process
from ontodex.serve import uploads
from ontodex.serve.http import json_limits
from ontodex.serve.requests import (
    AddDocumentsBody,
    DecisionsBody,
    DocumentBody,
    SuggestBody,
    SuggestOptionsBody,
)
from ontodex.serve.routes import concepts, documents
from ontodex.serve.routes.annif import MAX_BATCH
from ontodex.serve.service import ServeConfig

TEXT = "trout swim in the cold stream"
BOUNDARY = "------------------------limits"


@dataclass(frozen=True)
class HttpRequest:
    method: str
    path: str
    body: bytes | None = None
    media_type: str = "application/json"


@dataclass(frozen=True)
class RequestLimit:
    """The largest request of an operation, the words of the refusal above it, and the request."""

    operation: str
    largest: str
    refusal: str
    make: Callable[[int], HttpRequest]
    status: int = 422  # of the refusal
    is_slow: bool = False


def find_limit(model: type[BaseModel], field: str, key: str) -> int:
    """Return a limit of a field, as the OpenAPI description states it."""
    properties: dict[str, Any] = model.model_json_schema()["properties"]
    return int(properties[field][key])


def find_query_limit(route: Callable[..., Any], name: str) -> int:
    """Return the largest value, or length, of a parameter in the query."""
    hints = get_type_hints(route, include_extras=True)[name].__metadata__
    parts = [part for hint in hints for part in (hint, *getattr(hint, "metadata", ()))]
    limits = [getattr(part, name, None) for part in parts for name in ("le", "max_length")]
    return int(next(limit for limit in limits if limit is not None))


def post(path: str, value: object) -> HttpRequest:
    return HttpRequest("POST", path, json.dumps(value).encode())


def get(path: str, **query: object) -> HttpRequest:
    return HttpRequest("GET", f"{path}?{urlencode(query)}")


def upload(contents: list[bytes], ending: str = "txt") -> HttpRequest:
    """Return a form with one text file for each of the contents."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename='
    parts = [
        f'{head}"{number}.{ending}"\r\n\r\n'.encode() + content + b"\r\n"
        for number, content in enumerate(contents)
    ]
    body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
    return HttpRequest(
        "POST", "/documents/upload", body, f"multipart/form-data; boundary={BOUNDARY}"
    )


def add_document(**more: object) -> HttpRequest:
    return post("/documents", {"documents": [{"text": TEXT, **more}]})


def fill_body(extra: int) -> HttpRequest:
    size = ServeConfig.max_body + extra
    empty = add_document(body="").body or b""
    return add_document(body="a " * ((size - len(empty)) // 2) + "a" * ((size - len(empty)) % 2))


def fill_upload(extra: int) -> HttpRequest:
    """Return a form of that many bytes: texts with fewer characters than one file may have."""
    size = ServeConfig.max_upload + extra
    half = size // 2 - 1000
    rest = size - len(upload([b"", b"", b""]).body or b"") - 2 * half
    return upload([b"a " * (half // 2), b"a " * (half // 2), b"a" * rest])


def count_files(extra: int) -> HttpRequest:
    return upload([TEXT.encode()] * (uploads.MAX_FILES + extra))


def fill_text(extra: int) -> HttpRequest:
    """Return packed texts that take all room together, of the longest that one file may have."""
    beside = extract_process.DOC_SIZE + 2 * extract_process.STRING_SIZE + len("{}")
    sizes = [json_limits.MAX_TEXT - beside] * (uploads.MAX_UPLOADED_TEXT // json_limits.MAX_TEXT)
    sizes[-1] += extra
    # Numbers between the words: a text that packs too well looks like a decompression bomb.
    line = b"a " * 45
    text = b"".join(b"%08d " % number + line for number in range(max(sizes) // len(line)))
    return upload([gzip.compress(text[:n], 1) for n in sizes], "txt.gz")


def list_request_limits() -> Iterator[RequestLimit]:
    """Yield the limits of the service with its default settings."""
    body, most = f"{ServeConfig.max_body:,} bytes", f"{ServeConfig.max_upload:,} bytes"
    yield RequestLimit("any request: its body", body, f"larger than {body}", fill_body, 413)
    yield RequestLimit(
        "`POST /documents/upload`: its body", most, f"larger than {most}", fill_upload, 413, True
    )
    yield RequestLimit(
        "`POST /documents/upload`: files",
        f"{uploads.MAX_FILES}",
        f"only {uploads.MAX_FILES} files are taken at a time",
        count_files,
        201,
        True,
    )
    text = f"{uploads.MAX_UPLOADED_TEXT:,} characters, 1,000 more for each document"
    yield RequestLimit(
        "`POST /documents/upload`: text of all files, unpacked",
        text,
        "characters that are left for it",
        fill_text,
        201,
        True,
    )
    yield from list_document_limits()
    yield from list_list_limits()


def list_document_limits() -> Iterator[RequestLimit]:
    """Yield the limits of a document in a JSON body."""
    n_id = find_limit(DocumentBody, "id", "maxLength")
    yield RequestLimit(
        "a document in a body: its id",
        f"{n_id} characters",
        f"at most {n_id} characters",
        lambda extra: add_document(id="i" * (n_id + extra)),
    )
    n_fields = find_limit(DocumentBody, "fields", "maxProperties")
    yield RequestLimit(
        "a document in a body: `fields`",
        f"{n_fields}",
        f"at most {n_fields} items",
        lambda extra: add_document(fields={str(i): TEXT for i in range(n_fields + extra)}),
    )
    n_keywords = find_limit(DocumentBody, "keywords", "maxItems")
    yield RequestLimit(
        "a document in a body: `keywords`",
        f"{n_keywords:,}",
        f"at most {n_keywords} items",
        lambda extra: add_document(keywords=["trout"] * (n_keywords + extra)),
    )


def list_list_limits() -> Iterator[RequestLimit]:
    """Yield how many documents, decisions and answers one request may have."""
    yield from list_suggest_limits({"text": TEXT})
    yield from list_queue_limits({"text": TEXT})


def list_suggest_limits(document: dict[str, str]) -> Iterator[RequestLimit]:
    """Yield the limits of requests for suggestions."""
    n_suggest = find_limit(SuggestBody, "documents", "maxItems")
    yield RequestLimit(
        "`POST /suggest`: documents",
        f"{n_suggest}",
        f"at most {n_suggest} items",
        lambda extra: post("/suggest", {"documents": [document] * (n_suggest + extra)}),
    )
    n_limit = find_limit(SuggestOptionsBody, "limit", "maximum")
    yield RequestLimit(
        "`POST /suggest`: `limit`",
        f"{n_limit}",
        f"less than or equal to {n_limit}",
        lambda extra: post("/suggest", {"documents": [document], "limit": n_limit + extra}),
    )
    n_exclude = find_limit(SuggestOptionsBody, "exclude", "maxItems")
    yield RequestLimit(
        "`POST /suggest`: `exclude`",
        f"{n_exclude:,} labels",
        f"at most {n_exclude} items",
        lambda extra: post(
            "/suggest", {"documents": [document], "exclude": ["fish"] * (n_exclude + extra)}
        ),
    )
    yield RequestLimit(
        "`POST /v1/projects/RUN/suggest-batch`: documents",
        f"{MAX_BATCH}",
        f"at most {MAX_BATCH} items",
        lambda extra: post(
            "/v1/projects/small/suggest-batch", {"documents": [document] * (MAX_BATCH + extra)}
        ),
    )


def list_queue_limits(document: dict[str, str]) -> Iterator[RequestLimit]:
    """Yield the limits of the queue, of decisions and of search."""
    n_add = find_limit(AddDocumentsBody, "documents", "maxItems")
    yield RequestLimit(
        "`POST /documents`: documents",
        f"{n_add:,}",
        f"at most {n_add} items",
        lambda extra: post("/documents", {"documents": [document] * (n_add + extra)}),
    )
    n_decide = find_limit(DecisionsBody, "decisions", "maxItems")
    decision = {"document": 1, "label": "fish", "verdict": "accept"}
    yield RequestLimit(
        "`POST /decisions`: decisions",
        f"{n_decide}",
        f"at most {n_decide} items",
        lambda extra: post("/decisions", {"decisions": [decision] * (n_decide + extra)}),
    )
    n_rows = find_query_limit(documents.list_documents, "limit")
    yield RequestLimit(
        "`GET /documents`: `limit`",
        f"{n_rows}",
        f"less than or equal to {n_rows}",
        lambda extra: get("/documents", limit=n_rows + extra),
    )
    n_letters = find_query_limit(concepts.search, "q")
    yield RequestLimit(
        "`GET /ontology/search`: `q`",
        f"{n_letters} characters",
        f"at most {n_letters} characters",
        lambda extra: get("/ontology/search", q="f" * (n_letters + extra)),
    )


REQUEST_LIMITS = tuple(list_request_limits())
