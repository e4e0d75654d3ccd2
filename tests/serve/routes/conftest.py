"""A queue of two documents, and decisions about them."""

from __future__ import annotations

import pytest

TROUT = {"id": "t1", "title": "A trout", "abstract": "swims in the stream"}


OAK = {"id": "o1", "text": "old oaks in the forest"}


@pytest.fixture
def queue(client):
    """A client whose queue has two documents, numbers 1 and 2."""
    answer = client.post("/documents", json={"documents": [TROUT, OAK], "batch": "may"})
    assert (answer.status_code, answer.json()["numbers"]) == (201, [1, 2])
    return client


@pytest.fixture
def decide():
    """Write one decision over HTTP and return it."""

    def write(client, document, label, verdict="accept", **more):
        wanted = {"document": document, "label": label, "verdict": verdict, **more}
        answer = client.post("/decisions", json={"decisions": [wanted]})
        assert answer.status_code == 201, answer.text
        return answer.json()["decisions"][0]

    return write
