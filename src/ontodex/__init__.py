"""ontodex: index documents with the concepts of an ontology, at extreme scale.

import ontodex
run = ontodex.load("runs/parabel")
for suggestion in run.suggest("Text of a document"):
    print(suggestion.name, suggestion.probability, suggestion.path)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ontodex.classifier import OntodexClassifier
    from ontodex.errors import OntodexError
    from ontodex.ontology import read_ontology
    from ontodex.read import open_corpus
    from ontodex.run import Run, Suggestion, load
    from ontodex.types import Corpus, Doc, LabelSpace, Ontology, Ranking

__version__ = "0.1.0"

# Where each public name lives; they are imported on first use, so `import ontodex` is instant.
_HOME = {
    "Corpus": "ontodex.types",
    "Doc": "ontodex.types",
    "LabelSpace": "ontodex.types",
    "Ontology": "ontodex.types",
    "OntodexClassifier": "ontodex.classifier",
    "OntodexError": "ontodex.errors",
    "Ranking": "ontodex.types",
    "Run": "ontodex.run",
    "Suggestion": "ontodex.run",
    "load": "ontodex.run",
    "open_corpus": "ontodex.read",
    "read_ontology": "ontodex.ontology",
}

__all__ = [
    "Corpus",
    "Doc",
    "LabelSpace",
    "OntodexClassifier",
    "OntodexError",
    "Ontology",
    "Ranking",
    "Run",
    "Suggestion",
    "load",
    "open_corpus",
    "read_ontology",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ontodex' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
