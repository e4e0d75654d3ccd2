"""ontodex: index documents with the concepts of an ontology, at extreme scale.

import ontodex
run = ontodex.train("parabel", train="train.jsonl", ontology="ontology.json", out="runs/parabel")
for suggestion in run.suggest("Text of a document"):
    print(suggestion.name, suggestion.probability, suggestion.path)
print(ontodex.evaluate(run, "test.jsonl")["P@1"])
run = ontodex.load("runs/parabel")  # later, or on another machine
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ontodex.corpora.field_mapping import FieldMapping
    from ontodex.corpora.open import open_corpus
    from ontodex.errors import OntodexError
    from ontodex.evaluation.metrics import Metrics
    from ontodex.ontology.open import read_ontology
    from ontodex.runs.compare import Comparison, compare
    from ontodex.runs.evaluate import evaluate
    from ontodex.runs.recipe import train
    from ontodex.runs.run import Run, load
    from ontodex.sklearn import OntodexClassifier
    from ontodex.types import Corpus, Doc, LabelSpace, Ontology, Ranking
    from ontodex.types.answers import Explanation, Span, Suggestion

__version__ = "0.2.0"

# The module of each public name; it is imported on first use, so `import ontodex` is instant.
_HOME = {
    "Comparison": "ontodex.runs.compare",
    "Corpus": "ontodex.types",
    "Doc": "ontodex.types",
    "Explanation": "ontodex.types.answers",
    "FieldMapping": "ontodex.corpora.field_mapping",
    "LabelSpace": "ontodex.types",
    "Metrics": "ontodex.evaluation.metrics",
    "OntodexClassifier": "ontodex.sklearn",
    "OntodexError": "ontodex.errors",
    "Ontology": "ontodex.types",
    "Ranking": "ontodex.types",
    "Run": "ontodex.runs.run",
    "Span": "ontodex.types.answers",
    "Suggestion": "ontodex.types.answers",
    "compare": "ontodex.runs.compare",
    "evaluate": "ontodex.runs.evaluate",
    "load": "ontodex.runs.run",
    "open_corpus": "ontodex.corpora.open",
    "read_ontology": "ontodex.ontology.open",
    "train": "ontodex.runs.recipe",
}

__all__ = [
    "Comparison",
    "Corpus",
    "Doc",
    "Explanation",
    "FieldMapping",
    "LabelSpace",
    "Metrics",
    "OntodexClassifier",
    "OntodexError",
    "Ontology",
    "Ranking",
    "Run",
    "Span",
    "Suggestion",
    "compare",
    "evaluate",
    "load",
    "open_corpus",
    "read_ontology",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ontodex' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
