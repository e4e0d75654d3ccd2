"""The bundled sample: a small ontology of city life and a generator of documents about it.

The documents are synthetic. They are for demonstrations and tests, which need a corpus that comes
with the package, trains in seconds and still shows whether a system is good or poor. The ontology,
the sentences and the generator were written for this project.
"""

from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from ontodex.corpora.sample.generate import generate_documents

__all__ = ["generate_documents", "get_ontology_path", "split_records"]

Record = dict[str, object]


def get_ontology_path() -> Path:
    """Return the path of the ontology of the sample, a JSON file of concepts by id."""
    return Path(str(files(__name__) / "ontology.json"))


def split_records(records: Iterable[Record]) -> tuple[list[Record], list[Record], list[Record]]:
    """Split records into train, dev and test, about 8 : 1 : 1, by a hash of the id.

    A document stays in its part however many others are generated.
    """
    parts: tuple[list[Record], list[Record], list[Record]] = ([], [], [])
    for record in records:
        digit = int(sha256(str(record["id"]).encode()).hexdigest(), 16) % 10
        parts[{0: 2, 1: 1}.get(digit, 0)].append(record)
    return parts
