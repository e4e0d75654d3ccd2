"""A trained run: rank, decide, suggest and explain with the system of a run folder.

load      verify the manifest ─ labels, ontology, system, decision ─ a `Run`
predict   the ranking, the label sets and the standalone probabilities of a corpus, computed once
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from ontodex.config import Table, suggest_similar
from ontodex.corpora.python_objects import convert_object
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.features.languages import match_tag
from ontodex.io.counts import format_count
from ontodex.io.device import choose_device
from ontodex.models.interface import Decides, Explains, Model
from ontodex.ontology.open import read_ontology
from ontodex.runs.folder import check_training_facts, load_config, load_labels, verify_folder
from ontodex.runs.languages import get_languages, prefer_languages, warn_foreign
from ontodex.runs.settings import RunSettings, resolve
from ontodex.runs.suggestions import make_suggestions
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import (
    DocumentSuggestions,
    Explanation,
    PredictionResult,
    SetAttention,
    Span,
    Suggestion,
)

if TYPE_CHECKING:
    from ontodex.decide.decision import Decision
    from ontodex.runs.index.job import IndexOptions, IndexResult, Sources

RANKS = 100  # depth of the rankings from which label sets and metrics are computed


def load(folder: str | Path, *, device: str = "cpu") -> Run:
    """Load a trained run. Every file is checked against the manifest of the folder.

    >>> run = ontodex.load("runs/floor")
    >>> run
    Run('runs/floor', popularity, 4 labels)
    """
    folder = Path(folder)
    about, device = verify_folder(folder), choose_device(device)
    check_training_facts(folder, about)
    try:
        return _load(folder, about, device)
    except (ConfigError, DataError) as error:  # of the files of the run, not of the caller
        raise RunError(f"{folder}: {error}", hint=error.hint) from error


def locate_run(run: Run | str | Path) -> Path:
    """Return the folder of a run that is given as such or by its path."""
    return run.folder if isinstance(run, Run) else Path(run)


def _load(folder: Path, about: Table, device: str) -> Run:
    """Load what a verified run folder holds."""
    from ontodex.decide.decision import load_decision

    languages = get_languages(about)
    settings = resolve(load_config(folder), names_old=False).read_languages(languages)
    ontology_path = folder / "ontology.json"
    ontology = None
    if ontology_path.exists():
        ontology = prefer_languages(read_ontology(ontology_path, "json"), languages)
    labels = load_labels(folder / "labels.tsv", ontology)
    model = settings.model_class.load(folder / "model", labels, device=device)
    decision = load_decision(folder / "decision.json", labels)
    return Run(folder, about, settings, labels, model, decision)


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A trained system with its labels, its ontology and its decision rule.

    rank      the best labels of each document        suggest   the best concepts, with names
    decide    the label set of each document          explain   the words that support a concept
    """

    folder: Path
    about: Table  # the manifest: version, documents, training time, hardware
    settings: RunSettings
    labels: LabelSpace
    model: Model
    decision: Decision

    def __repr__(self) -> str:
        size = format_count(len(self.labels), "label")
        return f"Run({str(self.folder)!r}, {self.settings.name}, {size})"

    def rank(self, corpus: Corpus, k: int = RANKS) -> Ranking:
        """Return the k best labels of each document, most probable first.

        >>> ranking = run.rank(ontodex.open_corpus("test.jsonl"), 2)
        >>> run.labels.name(int(ranking.columns[0, 0])), f"{ranking.probabilities[0, 0]:.2f}"
        ('Fish', '0.67')
        """
        return self.model.rank(corpus, k)

    def decide(self, corpus: Corpus, ranking: Ranking | None = None) -> Ranking:
        """Return the label set of each document.

        A system that decides by itself predicts the set; for any other, the tuned decision rule
        takes it from the ranking. `ranking` saves ranking the corpus again.

        >>> label_sets = run.decide(ontodex.open_corpus("test.jsonl"))
        >>> [run.labels.ids[column] for column in label_sets.columns[0] if column >= 0]
        ['fish', 'oak']
        """
        if isinstance(self.model, Decides):
            label_sets = self.model.decide(corpus)
            return self.decision.apply_constraints(label_sets, label_sets)
        return self.decision.apply(self.rank(corpus) if ranking is None else ranking)

    @overload
    def suggest(
        self,
        documents: str | Doc | Mapping[str, Any],
        *,
        limit: int = 10,
        threshold: float = 0.0,
        language: str | None = None,
    ) -> list[Suggestion]: ...

    @overload
    def suggest(
        self,
        documents: list[str] | list[Doc] | list[Mapping[str, Any]],
        *,
        limit: int = 10,
        threshold: float = 0.0,
        language: str | None = None,
    ) -> list[list[Suggestion]]: ...

    def suggest(
        self,
        documents: str | Doc | Mapping[str, Any] | list[str] | list[Doc] | list[Mapping[str, Any]],
        *,
        limit: int = 10,
        threshold: float = 0.0,
        language: str | None = None,
    ) -> list[Suggestion] | list[list[Suggestion]]:
        """Return the best concepts of a document, most probable first.

        One text, `Doc` or dict with texts gives a list of suggestions. A list of them gives one
        list for each. A system that decides by itself suggests only labels of its label set.

        >>> for suggestion in run.suggest("Brown trout return to the stream.", limit=2):
        ...     print(suggestion.name, suggestion.path)
        Fish ('Animals', 'Fish')
        Oak ('Oak',)
        >>> [len(found) for found in run.suggest(["first text", "second text"])]
        [2, 2]
        """
        is_single = isinstance(documents, str | Doc | Mapping)
        corpus = _as_corpus(
            [documents] if isinstance(documents, str | Doc | Mapping) else documents
        )
        warn_foreign(corpus, self.languages)
        decides = isinstance(self.model, Decides)
        ranking = self.decide(corpus).cut(limit) if decides else self.rank(corpus, limit)
        found = [
            [suggestion for suggestion in row if suggestion.probability >= threshold]
            for row in make_suggestions(self.labels, ranking, self.find_tag(language))
        ]
        return found[0] if is_single else found

    def explain(
        self,
        document: str | Doc | Mapping[str, Any],
        label: str | None = None,
        *,
        language: str | None = None,
        attention: bool = False,
    ) -> Explanation:
        """Return the words that support a concept, given by id or name; by default the best one.

        With `attention` the weight of a word is the concept's attention to it instead.

        >>> explanation = linear.explain("Brown trout return to the stream.", "Fish")
        >>> strongest = max(explanation.spans, key=lambda span: span.weight)
        >>> explanation.text[strongest.start : strongest.end]
        'trout'
        """
        doc = _as_doc(document)
        corpus = Corpus.of([doc])
        warn_foreign(corpus, self.languages)
        if label is None:
            best = self.rank(corpus, 1)
            column, probability = int(best.columns[0, 0]), float(best.probabilities[0, 0])
            if column < 0:
                raise RunError("this document has no suggestion to explain", hint="name a --label")
        else:
            column = self.find_column(label)
            probability = self._find_probability(corpus, column)
        # Systems that match names give a probability to some concepts that they never learned.
        is_learned = bool(probability) or self.labels.frequency[column] > 0
        return Explanation(
            doc.text,
            self.labels.ids[column],
            self.labels.name(column, self.find_tag(language)),
            probability,
            self._weigh_words(doc, column, attention=attention),
            "" if is_learned else self._describe_missing(),
        )

    def _weigh_words(self, doc: Doc, column: int, *, attention: bool) -> Sequence[Span]:
        """Return the words of a document with their contributions to a column, or its attention."""
        name = self.settings.name
        if attention:
            spans = self.model.attend(doc, column) if isinstance(self.model, Explains) else None
            if spans is None:
                raise RunError(
                    f"the labels of the system {name!r} attend to no words",
                    hint="leave out --attention to see what each word contributes",
                )
            return spans
        if not isinstance(self.model, Explains):
            raise RunError(f"the system {name!r} cannot explain its answers")
        return self.model.explain(doc, column)

    def index(
        self, sources: Sources, out: str | Path, **options: Unpack[IndexOptions]
    ) -> IndexResult:
        """Index the documents of files and write the table or folder `out`; see `index_documents`.

        >>> run.index("test.jsonl", "indexed.csv", workers=1)
        IndexResult(documents=6, rejected=0, outdated=0)
        """
        from ontodex.runs.index.job import index_documents

        return index_documents(self.folder, sources, out, **options)

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the codes of the languages of the training documents; () where none is known."""
        return get_languages(self.about)

    def find_tag(self, language: str | None) -> str | None:
        """Return the tag of the ontology for a language given by code or name."""
        ontology = self.labels.ontology
        if language is None or ontology is None:
            return None
        return match_tag(language, ontology.names)

    @property
    def n_updated(self) -> int:
        """Return the number of documents that `update` added after training."""
        return int(self.about.get("updates", {}).get("documents", 0))

    def find_column(self, label: str) -> int:
        """Return the column of a concept given by id, notation, or a name in any language."""
        if label in self.labels.column:
            return self.labels.column[label]
        names = [self.labels.name(column) for column in range(len(self.labels))]
        wanted, ontology = label.casefold(), self.labels.ontology
        for column, name in enumerate(names):
            if name.casefold() == wanted:
                return column
        if ontology is not None:
            for list_names in (
                lambda known: ontology.names_of(known).values(),
                ontology.synonyms_of,
            ):
                for column, known in enumerate(self.labels.ids):
                    if known in ontology and wanted in map(str.casefold, list_names(known)):
                        return column
            for column, known in enumerate(self.labels.ids):
                if ontology.notations.get(known, "").casefold() == wanted:
                    return column
        similar = suggest_similar(label[:200], names[:50_000], 3)
        raise RunError(
            f"this run knows no concept {label[:200]!r}{similar}",
            hint=f"take an id or a name of the {len(names):,} in {self.folder / 'labels.tsv'}",
        )

    def _find_probability(self, corpus: Corpus, column: int) -> float:
        """Return the probability of one label of the one document, 0 where it is not ranked.

        A short ranking nearly always has it; the whole label space is ranked only if it does not.
        """
        for k in (RANKS, len(self.labels)):
            ranking = self.rank(corpus, k)
            place = np.flatnonzero(ranking.columns[0] == column)
            if len(place):
                return float(ranking.probabilities[0, place[0]])
            if ranking.columns[0, -1] < 0:  # padded: no further label has a probability
                break
        return 0.0

    def _describe_missing(self) -> str:
        least = self.settings.labels.min_count
        if least > 1:
            return f"never learned: fewer than {least:,} training documents have it"
        return "never learned: no training document has it"


def predict(run: Run, corpus: Corpus, k: int = RANKS) -> PredictionResult:
    """Return the ranking, the label sets and the standalone probabilities of a corpus at once.

    Each document is ranked once, also where the system decides by itself.
    """
    if isinstance(run.model, Decides):
        result = run.model.predict(corpus, k)
        label_sets = run.decision.apply_constraints(result.label_sets, result.ranking)
        return dataclasses.replace(result, label_sets=label_sets)
    ranking = run.rank(corpus, k)
    return PredictionResult(ranking, run.decide(corpus, ranking), ranking)


def suggest_in_context(
    run: Run,
    document: str | Doc,
    *,
    limit: int = 10,
    threshold: float = 0.0,
    language: str | None = None,
) -> DocumentSuggestions:
    """Return what `Run.suggest` returns, with the predictions behind it, for rendering.

    >>> found = ontodex.suggest_in_context(run, "Brown trout return to the stream.", limit=1)
    >>> [one.name for one in found.shown], [one.name for one in found.candidates]
    (['Fish'], ['Fish', 'Oak'])
    """
    corpus, k = _as_corpus([document]), max(limit, RANKS)
    warn_foreign(corpus, run.languages)
    decides = isinstance(run.model, Decides)
    if decides:
        result = predict(run, corpus, k)
        best, standalone = result.label_sets, result.standalone
    else:
        best = standalone = run.rank(corpus, k)
    (candidates,) = make_suggestions(run.labels, best, tag := run.find_tag(language))
    (by_itself,) = make_suggestions(run.labels, standalone, tag)
    shown = [found for found in candidates[:limit] if found.probability >= threshold]
    return DocumentSuggestions(shown, candidates, by_itself, is_own_set=decides)


def explain_set(run: Run, document: str | Doc) -> SetAttention | None:
    """Return the steps in which the system generated the label set; None where it has none.

    >>> ontodex.explain_set(run, "Brown trout return to the stream.") is None
    True
    """
    if not isinstance(run.model, Decides):
        return None
    return run.model.explain_set(_as_doc(document))


def _as_corpus(documents: Iterable[str | Doc | Mapping[str, Any]]) -> Corpus:
    return Corpus.of(_as_doc(document, str(n)) for n, document in enumerate(documents))


def _as_doc(document: str | Doc | Mapping[str, Any], id_: str = "") -> Doc:
    if isinstance(document, str):
        return Doc(id_, {"text": document})
    return convert_object(document, 1)
