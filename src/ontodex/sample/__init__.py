"""The bundled sample: a small ontology of city life and a generator of documents that speak of it.

The documents are generated, and say so here: they are for demonstrations and tests, where a corpus
must come with the package, train in seconds and still tell a good system from a poor one. The
ontology, the sentences and the generator are the project's own.
"""

from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from ontodex.sample.generate import documents

__all__ = ["documents", "ontology_path", "split"]

Record = dict[str, object]


def ontology_path() -> Path:
    """The ontology of the sample, a JSON file of concepts keyed by id."""
    return Path(str(files(__name__) / "ontology.json"))


def split(records: Iterable[Record]) -> tuple[list[Record], list[Record], list[Record]]:
    """Train, dev and test, about 8 : 1 : 1, by hash of the id.

    A document stays on its side however many others are generated.
    """
    parts: tuple[list[Record], list[Record], list[Record]] = ([], [], [])
    for record in records:
        digit = int(sha256(str(record["id"]).encode()).hexdigest(), 16) % 10
        parts[{0: 2, 1: 1}.get(digit, 0)].append(record)
    return parts
