"""A session of the campaign `api`: what the service has acknowledged, and requests to it."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attack.api_clients import ApiAnswer, ApiRequest, Client
from ontodex.serve.http import api_keys

USERS = ("ada", "grace")
BATCHES = ("may", "june", "a/b ü", "x" * 200)
DELETED = "deleted"
ALLOWED = (501, 503)  # by design: an optional library is missing, the service is busy


@dataclass
class StoredDocument:
    """A document that the service has acknowledged."""

    content: dict[str, Any] | None  # None where only the service knows it (uploads)
    batch: str
    state: str = "open"
    is_damaged: bool = False


@dataclass
class Model:
    """Everything that the service has acknowledged."""

    documents: dict[int, StoredDocument] = field(default_factory=dict)
    decisions: dict[int, dict[str, Any]] = field(default_factory=dict)
    request_ids: dict[str, int] = field(default_factory=dict)

    def list_shown(self) -> list[int]:
        """Return the numbers of the documents that lists have: neither damaged nor deleted."""
        shown = self.documents.items()
        return [n for n, one in shown if not one.is_damaged and one.state != DELETED]

    def count(self, state: str, batch: str | None = None) -> int:
        """Return how many documents are in this state; damaged ones do not count."""
        return sum(
            one.state == state and not one.is_damaged and batch in (None, one.batch)
            for one in self.documents.values()
        )


class BrokenPromiseError(Exception):
    """An answer that the model does not allow."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key


class Session:
    """Requests to one service with an empty database, and what it has acknowledged."""

    def __init__(self, run: Path, database: str, folder: Path, rng: random.Random) -> None:
        self.run, self.database, self.folder, self.rng = run, database, folder, rng
        self.model = Model()
        self.keys_file = folder / "keys.tsv"
        self.keys = {user: api_keys.add_key(self.keys_file, user) for user in USERS}
        self.log: list[list[str]] = []
        self.statuses: Counter[int] = Counter()
        self.n_steps = self.n_restarts = 0
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    @property
    def has_damage(self) -> bool:
        return any(one.is_damaged for one in self.model.documents.values())

    def send(
        self, method: str, path: str, body: Any = None, *, expect: tuple[int, ...] | None = None,
        key: str | None = None, content_type: str = "application/json",
    ) -> ApiAnswer:  # fmt: skip
        """Send one request; the answer must have an expected status, and never a wrong 5xx."""
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        key = self.keys[self.rng.choice(USERS)] if key is None else key
        request = ApiRequest(method, path, raw, key, content_type)
        return self.send_all([request], expect)[0]

    def send_all(
        self, requests: list[ApiRequest], expect: tuple[int, ...] | None = None
    ) -> list[ApiAnswer]:
        answers = self.client.send(requests)
        for request, answer in zip(requests, answers, strict=True):
            self.n_steps += 1
            self.statuses[answer.status] += 1
            shown = request.body[:3000].decode("utf-8", "backslashreplace")
            self.log.append([request.method, request.path, shown, str(answer.status)])
            is_wrong = answer.status >= 500 and answer.status not in ALLOWED
            if is_wrong or (expect is not None and answer.status not in expect):
                route = re.sub(r"\d+", "N", request.path.partition("?")[0])
                raise BrokenPromiseError(
                    f"{request.method} {route[:60]} {answer.status}",
                    f"{request.method} {request.path[:200]} answered {answer.status}, "
                    f"expected {expect or 'no 5xx'}: {answer.body[:500]!r}",
                )
        return answers

    def read(self, path: str) -> Any:
        """Return the JSON of a GET that must succeed."""
        return json.loads(self.send("GET", path, expect=(200,)).body)

    def require(self, is_kept: bool, key: str, what: str) -> None:
        if not is_kept:
            raise BrokenPromiseError(key, what)

    def pick_document(self) -> int:
        """Return the number of a document; sometimes one that does not exist."""
        if not self.model.documents or self.rng.random() < 0.05:
            return self.rng.choice((10**6, 2**63 - 1))
        return self.rng.choice(list(self.model.documents))

    def allow(self, number: int, *statuses: int) -> tuple[int, ...]:
        """Return the statuses that a request about this document may have."""
        known = self.model.documents.get(number)
        if known is None:
            return (404,)
        found = (404,) if known.state == DELETED else statuses
        return (*statuses, 404, 409) if known.is_damaged else found
