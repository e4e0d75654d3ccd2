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
    from ontodex.runs.experiment.execute import run_experiment
    from ontodex.runs.export import export
    from ontodex.runs.hub import pull, push
    from ontodex.runs.migrate import Migration, migrate
    from ontodex.runs.prepare import prepare
    from ontodex.runs.recipe import train
    from ontodex.runs.run import Run, explain_set, load, suggest_in_context
    from ontodex.runs.tune import tune
    from ontodex.runs.update import update
    from ontodex.runs.versions import list_versions, restore_version
    from ontodex.serve.offline import learn
    from ontodex.sklearn import OntodexClassifier
    from ontodex.types import Corpus, Doc, LabelSpace, Ontology, Ranking
    from ontodex.types.answers import (
        DocumentSuggestions,
        Explanation,
        SetAttention,
        Span,
        Suggestion,
    )

__version__ = "0.2.0"

# The module of each public name; it is imported on first use, so `import ontodex` is instant.
_HOME = {
    "Comparison": "ontodex.runs.compare",
    "Corpus": "ontodex.types",
    "Doc": "ontodex.types",
    "DocumentSuggestions": "ontodex.types.answers",
    "Explanation": "ontodex.types.answers",
    "FieldMapping": "ontodex.corpora.field_mapping",
    "LabelSpace": "ontodex.types",
    "Metrics": "ontodex.evaluation.metrics",
    "Migration": "ontodex.runs.migrate",
    "OntodexClassifier": "ontodex.sklearn",
    "OntodexError": "ontodex.errors",
    "Ontology": "ontodex.types",
    "Ranking": "ontodex.types",
    "Run": "ontodex.runs.run",
    "SetAttention": "ontodex.types.answers",
    "Span": "ontodex.types.answers",
    "Suggestion": "ontodex.types.answers",
    "compare": "ontodex.runs.compare",
    "evaluate": "ontodex.runs.evaluate",
    "explain_set": "ontodex.runs.run",
    "export": "ontodex.runs.export",
    "learn": "ontodex.serve.offline",
    "list_versions": "ontodex.runs.versions",
    "load": "ontodex.runs.run",
    "migrate": "ontodex.runs.migrate",
    "open_corpus": "ontodex.corpora.open",
    "prepare": "ontodex.runs.prepare",
    "pull": "ontodex.runs.hub",
    "push": "ontodex.runs.hub",
    "read_ontology": "ontodex.ontology.open",
    "restore_version": "ontodex.runs.versions",
    "run_experiment": "ontodex.runs.experiment.execute",
    "suggest_in_context": "ontodex.runs.run",
    "train": "ontodex.runs.recipe",
    "tune": "ontodex.runs.tune",
    "update": "ontodex.runs.update",
}

__all__ = [
    "Comparison",
    "Corpus",
    "Doc",
    "DocumentSuggestions",
    "Explanation",
    "FieldMapping",
    "LabelSpace",
    "Metrics",
    "Migration",
    "OntodexClassifier",
    "OntodexError",
    "Ontology",
    "Ranking",
    "Run",
    "SetAttention",
    "Span",
    "Suggestion",
    "compare",
    "evaluate",
    "explain_set",
    "export",
    "learn",
    "list_versions",
    "load",
    "migrate",
    "open_corpus",
    "prepare",
    "pull",
    "push",
    "read_ontology",
    "restore_version",
    "run_experiment",
    "suggest_in_context",
    "train",
    "tune",
    "update",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ontodex' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
