"""A run as the routes show it: suggestions with their place in the ontology, and facts."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from ontodex.decide import constraints
from ontodex.errors import DataError, RunError
from ontodex.features.languages import find_foreign_language, name_language
from ontodex.io.files import hash_file
from ontodex.io.json_schema import read_table
from ontodex.models.interface import Decides, Describes, Explains, Updates
from ontodex.ontology.related import find_ancestors, find_more_specific, find_other_parents
from ontodex.runs.languages import describe_foreign, get_languages
from ontodex.runs.versions import NAME_LENGTH
from ontodex.runs.vocabulary import get_vocabulary_key
from ontodex.serve.learn import list_abilities
from ontodex.serve.prediction.concept_view import NO_GROUPS, ConceptGroups, ConceptView, Json
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.types import Corpus, Doc, Ranking
from ontodex.types.answers import PredictionResult

logger = logging.getLogger(__name__)

DIGITS = 6  # of probabilities in answers
SAMPLED = 200  # frequent labels that a sample text is chosen from
CACHE_SIZE = 100_000  # concepts whose place in the ontology is kept


@dataclass(frozen=True)
class SuggestOptions:
    """Options of one request for suggestions."""

    limit: int = 10
    threshold: float = 0.0
    label_set_only: bool = False
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    language: str | None = None
    exclude_groups: ConceptGroups = NO_GROUPS

    def __post_init__(self) -> None:
        if both := set(self.include) & set(self.exclude):
            raise DataError(f"{sorted(both)[0]!r} is both included and excluded")


def make_url_name(folder: Path) -> str:
    """Return the name of a run in URLs: its folder's name, with only letters, digits and '._-'."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-") or "run"


class RunView:
    """One run: its metadata, its concepts, and its predictions as JSON."""

    def __init__(self, name: str, metadata: RunMetadata, *, ranker_key: str = "") -> None:
        self.name, self.metadata = name, metadata
        # Of its model in the batcher. A version that was loaded later has a key of its own.
        self.ranker_key = ranker_key or name
        self.concepts = ConceptView(metadata.index, metadata.labels)
        self.state_key = hash_file(
            metadata.folder / "manifest.json"
        )  # changes whenever the run does
        self.version = self.state_key[:NAME_LENGTH]
        self.vocabulary_key = get_vocabulary_key(metadata.about, metadata.labels)
        self.vocabulary_name = self.concepts.ontology.title or name
        model = metadata.settings.model_class
        self.learns = list_abilities(metadata.decision, model)
        self.can_explain = issubclass(model, Explains)
        self.can_update = issubclass(model, Updates)
        self.reads_keywords = issubclass(model, Describes) and model.reads_keywords(
            metadata.folder / "model"
        )
        self._decides = issubclass(model, Decides)
        self._get_place = lru_cache(maxsize=CACHE_SIZE)(self._find_place)
        ontology = metadata.index.ontology
        self._get_ancestors = lru_cache(maxsize=CACHE_SIZE)(partial(find_ancestors, ontology))

    def build_suggestions(self, result: PredictionResult, options: SuggestOptions) -> list[Json]:
        """Return the suggestions for the one document of `result`, most probable first."""
        include = self.find_columns(options.include)
        exclude = self.find_excluded(options)
        ranking, label_set = self._constrain(result, include, exclude)
        standalone = dict(self._to_pairs(constraints.exclude_columns(result.standalone, exclude)))
        language = self.concepts.find_tag(options.language)
        more_specific = self._find_more_specific(label_set, standalone, language)
        set_columns = set(label_set.columns[0].tolist())
        ids = self.metadata.labels.ids
        shown = label_set if options.label_set_only else ranking
        return [
            {
                **self._get_place(column, language),
                "probability": round(probability, DIGITS),
                "standalone_probability": round(standalone.get(ids[column], probability), DIGITS),
                "in_label_set": column in set_columns,
                "more_specific": more_specific.get(ids[column], []),
            }
            for column, probability in _select_best(shown, options, set(include))
        ]

    def list_warnings(self, docs: Sequence[Doc]) -> list[str]:
        """Return what a reader of the suggestions for these documents should know."""
        warning = describe_foreign(Corpus.of(docs), get_languages(self.metadata.about))
        return [warning] if warning else []

    def find_foreign_language(self, doc: Doc) -> str:
        """Return the code of a document's language if the run was not trained on it, else ""."""
        return find_foreign_language(doc.text, get_languages(self.metadata.about))

    def _constrain(
        self, result: PredictionResult, include: list[int], exclude: list[int]
    ) -> tuple[Ranking, Ranking]:
        """Return ranking and label set, with some labels forced in and others left out."""
        ranking, label_set = result.ranking, result.label_sets
        if not include and not exclude:
            return ranking, label_set
        decision = self.metadata.decision
        if self._decides:  # the model decided; there is no rule to apply again
            label_set = decision.apply_constraints(
                label_set, ranking, include=include, exclude=exclude
            )
        else:
            label_set = decision.apply(ranking, include=include, exclude=exclude)
        rest = constraints.exclude_columns(ranking, exclude)
        return constraints.include_columns(rest, include, ranking), label_set

    def _find_more_specific(
        self, label_set: Ranking, standalone: Mapping[str, float], language: str | None
    ) -> dict[str, list[Json]]:
        """Return for each predicted label the close labels below it that are not predicted."""
        predicted = dict(self._to_pairs(label_set))
        close = find_more_specific(predicted, standalone, self._get_ancestors)
        return {
            label: [
                {
                    **self.concepts.get_ref(narrower, language),
                    "standalone_probability": round(standalone[narrower], DIGITS),
                }
                for narrower in below
            ]
            for label, below in close.items()
        }

    def _find_place(self, column: int, language: str | None) -> Json:
        labels, concepts = self.metadata.labels, self.concepts
        label = labels.ids[column]
        parents = find_other_parents(concepts.ontology, label)
        return {
            "label": label,
            "name": labels.name(column, language),
            "notation": concepts.get_notation(label),
            "path": concepts.get_path(label, language) if labels.ontology is not None else [],
            "other_parents": [concepts.get_ref(parent, language) for parent in parents],
        }

    def encode_result(self, result: PredictionResult) -> Json:
        """Return the prediction for one document as the database stores it.

        Standalone probabilities are stored only where they differ from the ranking.
        """
        ranking, standalone = self._to_pairs(result.ranking), self._to_pairs(result.standalone)
        stored = {"ranked": ranking, "chosen": self._to_pairs(result.label_sets)}
        return stored if standalone == ranking else {**stored, "standalone": standalone}

    def decode_result(self, stored: Json) -> PredictionResult | None:
        """Return the prediction that `encode_result` encoded; None if it is damaged."""
        try:
            # Databases of version 0.1 have "apart".
            standalone = stored.get("standalone", stored.get("apart", stored["ranked"]))
            pairs = stored["ranked"], stored["chosen"], standalone
            return PredictionResult(*map(self._to_ranking, pairs))
        except (LookupError, TypeError, ValueError, OverflowError):
            return None

    def _to_pairs(self, ranking: Ranking) -> list[tuple[str, float]]:
        ids = self.metadata.labels.ids
        pairs = zip(ranking.columns[0].tolist(), ranking.probabilities[0].tolist(), strict=True)
        return [(ids[column], probability) for column, probability in pairs if column >= 0]

    def _to_ranking(self, pairs: Sequence[tuple[str, float]]) -> Ranking:
        columns = [self.metadata.labels.column[label] for label, _ in pairs]
        return Ranking(
            np.array(columns, np.int32).reshape(1, -1),
            np.array([probability for _, probability in pairs], np.float32).reshape(1, -1),
        )

    def find_columns(self, labels: Iterable[str]) -> list[int]:
        """Return the columns of labels; an error if the run does not have one of them."""
        column = self.metadata.labels.column
        for label in labels:
            if label not in column:
                raise DataError(f"the run {self.name!r} has no concept {label[:200]!r}")
        return [column[label] for label in labels]

    def find_excluded(self, options: SuggestOptions) -> list[int]:
        """Return the columns of excluded labels and groups, except those that are included."""
        column, included = self.metadata.labels.column, set(options.include)
        in_groups = self.concepts.find_members(options.exclude_groups)
        grouped = [column[one] for one in in_groups if one in column and one not in included]
        return [*self.find_columns(options.exclude), *grouped]

    def make_sample(self) -> Json:
        """Return a text about frequent concepts of the vocabulary; runs store no documents."""
        labels, concepts = self.metadata.labels, self.concepts
        chosen: dict[str, str] = {}  # by root, so that the text has several themes
        for column in np.argsort(-labels.frequency[: labels.n_seen], kind="stable")[:SAMPLED]:
            label = labels.ids[column]
            path = concepts.get_path(label)
            chosen.setdefault(path[0]["label"] if path else label, label)
        names = [concepts.get_name(label) for label in list(chosen.values())[:3]]
        parts = [concepts.describe(label) for label in list(chosen.values())[:3]]
        return {"title": " · ".join(names), "text": "\n\n".join(parts)}

    @staticmethod
    def count_corrections(result: PredictionResult) -> float:
        """Return the expected number of corrections of the predicted label set of one document:
        predicted labels that are wrong, and ranked ones that are missing."""
        chosen = set(result.label_sets.columns[0].tolist())
        ranking = result.ranking
        pairs = zip(ranking.columns[0].tolist(), ranking.probabilities[0].tolist(), strict=True)
        return round(sum(1 - p if c in chosen else p for c, p in pairs if c >= 0), DIGITS)

    def summarize(self) -> Json:
        """Return the facts about the run that `GET /runs` lists."""
        metadata = self.metadata
        return {
            "run": self.name,
            "version": self.version,
            "model": metadata.settings.name,
            "n_labels": metadata.labels.n_seen,
            "n_documents": metadata.about["train"]["documents"],
            "train_seconds": metadata.about["train_seconds"],
            "hardware": metadata.about.get("hardware", ""),  # missing in runs of early versions
            "has_ontology": metadata.labels.ontology is not None,
            "vocabulary": self.vocabulary_name,
            "n_concepts": len(self.concepts.ontology),
            "language": self.concepts.ontology.language,
            "languages": self.concepts.languages,
            "language_names": {tag: name_language(tag) for tag in self.concepts.languages},
            "document_languages": list(map(name_language, get_languages(metadata.about))),
            "decision_rule": "model" if self._decides else metadata.decision.config.rule,
            "can_explain": self.can_explain,
            "can_update": self.can_update,
            "learns": self.learns,
            "reads_keywords": self.reads_keywords,
            "has_report": (metadata.folder / "report.html").is_file(),
        }

    def read_metrics(self) -> Json | None:
        """Return the metrics that `ontodex evaluate` wrote; None before it has run.

        The manifest does not have their digest, so a damaged file is reported and left out.
        """
        path = self.metadata.folder / "metrics.json"
        try:
            return read_table(path) if path.is_file() else None
        except RunError as error:
            logger.warning("%s", error)
            return None


def _select_best(
    ranking: Ranking, options: SuggestOptions, included: set[int]
) -> list[tuple[int, float]]:
    """Return (column, probability) of the included columns and of the most probable others."""
    pairs = zip(ranking.columns[0].tolist(), ranking.probabilities[0].tolist(), strict=True)
    likely = [(c, p) for c, p in pairs if c >= 0 and (p >= options.threshold or c in included)]
    room = options.limit - min(options.limit, sum(c in included for c, _ in likely))
    others = [c for c, _ in likely if c not in included][:room]
    return [(c, p) for c, p in likely if c in included or c in others][: options.limit]
