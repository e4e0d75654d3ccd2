"""Move a run to a newer version of its vocabulary: `ontodex migrate RUN NEW --out RUN2`.

    old and new ontology ─ diff ─ old columns to new concepts ─ thresholds with them ─ RUN2
                                └ new concepts: found by their names

New concepts are found by `lexical` and `semantic`, whichever the run has. Nothing is trained but a
`lexical` for the new concepts, where the training corpus is at hand.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ontodex import config
from ontodex.decide.decision import Decision
from ontodex.decide.per_label import PerLabel
from ontodex.decide.threshold import NO_EVIDENCE
from ontodex.errors import RunError
from ontodex.features.token_config import set_languages
from ontodex.io.files import replace_folder, write_text
from ontodex.io.temporary import temporary_folder
from ontodex.models.baselines.lexical import LexicalSystem
from ontodex.models.consensus.members import FittedMember, Member, read_member
from ontodex.models.consensus.system import Consensus
from ontodex.models.interface import Decides
from ontodex.models.migrated import Migrated
from ontodex.models.semantic.system import SemanticSystem
from ontodex.ontology.diff import OntologyDiff, compare_ontologies
from ontodex.ontology.open import open_ontology, write_ontology
from ontodex.runs.folder import save_labels, write_manifest
from ontodex.runs.migration import MIGRATION, map_labels, read_migration
from ontodex.runs.model_card import save_model_card
from ontodex.runs.retrain import open_sources
from ontodex.runs.run import Run, load, locate_run
from ontodex.runs.versions import name_version
from ontodex.types import LabelSpace, Ontology


@dataclass(frozen=True)
class Migration:
    """A migrated run and what became of its labels."""

    run: Run
    diff: OntologyDiff
    successors: Mapping[str, str]  # old label -> new label, where they differ
    lost: Mapping[str, int]  # labels without one successor -> training documents
    found_by_name: Sequence[str]  # new concepts that are suggested by their names
    not_served: Sequence[str]  # new concepts that cannot be suggested


def migrate(
    run: Run | str | Path,
    ontology: Ontology | str | Path,
    out: str | Path,
    *,
    train: str | Path | None = None,
    device: str = "cpu",
) -> Migration:
    """Write a run for a newer version of the vocabulary to `out`.

    `train` is the training corpus where the run does not record its path. It is needed only to
    serve new concepts by their names; the run's own `lexical` and `semantic` need none.

    >>> migration = ontodex.migrate("runs/floor", "newer.json", "runs/newer")
    >>> migration.run.settings.name, migration.found_by_name
    ('migrated', ['eel'])
    """
    folder, out = locate_run(run), Path(out)
    run = load(folder, device=device)
    ontology = open_ontology(ontology)
    if run.labels.ontology is None:
        raise RunError(f"{folder}: has no ontology, so there is no version to migrate from")
    if out.exists():
        raise RunError(f"{out}: exists already", hint="choose another --out")
    diff = compare_ontologies(run.labels.ontology, ontology)
    targets = _map_labels(run.labels, ontology, diff)
    labels, columns = _make_label_space(run.labels, targets, ontology)
    out.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(out.with_name(f"{out.name}.names")) as place:
        names = _make_names(run, labels, columns, targets, place, train=train)
        model = Migrated.of(run, labels, columns, names)
        with replace_folder(out) as new:
            _save(run, model, targets, new)
    lost = {
        label: int(run.labels.frequency[column])
        for column, label in enumerate(run.labels.ids)
        if targets[label] is None
    }
    fresh = [label for label in diff.added if label in labels.column]
    return Migration(
        load(out, device=device),
        diff,
        _select_changed(targets),
        lost,
        fresh if names is not None else [],
        [] if names is not None else fresh,
    )


def _map_labels(
    labels: LabelSpace, ontology: Ontology, diff: OntologyDiff
) -> dict[str, str | None]:
    """Return for each old label its new one; None where it has none, or several."""
    old = labels.ontology
    targets: dict[str, str | None] = {}
    for label in labels.ids:
        is_used = label in ontology and label not in ontology.deprecated
        is_foreign = old is not None and label not in old  # no version says anything about it
        targets[label] = label if is_used or is_foreign else diff.find_successor(label)
    return targets


def _make_label_space(
    old: LabelSpace, targets: Mapping[str, str | None], ontology: Ontology
) -> tuple[LabelSpace, NDArray[np.int64]]:
    """Return the new label space, and the new column of each old one (-1: it is gone)."""
    frequency: dict[str, int] = {}
    for label, count in zip(old.ids, old.frequency.tolist(), strict=True):
        target = targets[label]
        if target is not None:
            frequency[target] = min(frequency.get(target, 0) + count, old.n_docs)
    seen = sorted(label for label, count in frequency.items() if count)
    known = set(seen)
    kept = [label for label, count in frequency.items() if not count]
    used = [one for one in ontology.ids if one not in ontology.deprecated]
    unseen = [label for label in dict.fromkeys([*used, *kept]) if label not in known]
    counts = np.array([frequency.get(label, 0) for label in (*seen, *unseen)], np.int64)
    labels = LabelSpace((*seen, *unseen), counts, old.n_docs, ontology)
    columns = [labels.column[target] if (target := targets[one]) is not None else -1
               for one in old.ids]  # fmt: skip
    return labels, np.array(columns, np.int64)


def _make_names(
    run: Run,
    labels: LabelSpace,
    columns: NDArray[np.int64],
    targets: Mapping[str, str | None],
    place: Path,
    *,
    train: str | Path | None,
) -> Member | None:
    """Return a run that finds new concepts by their names, written to `place`; None without one.

    It is of the systems of the run that read names, joined where it has both `lexical` and
    `semantic`. A run without them gets a `lexical`, where the training corpus is at hand.
    """
    readers = _list_name_readers(run)
    semantic = next((one.model for one in readers if isinstance(one.model, SemanticSystem)), None)
    lexical = next((one for one in readers if isinstance(one.model, LexicalSystem)), None)
    found = []
    if lexical is not None or semantic is None:
        found += _make_lexical(run, lexical, labels, columns, targets, train=train)
    if semantic is not None:
        is_new = np.ones(len(labels), bool)
        is_new[columns[columns >= 0]] = False
        found.append(FittedMember(labels, semantic.select_new(labels, is_new), "semantic", {}))
    if not found:
        return None
    if len(found) > 1:
        found = [FittedMember(labels, Consensus.of(found, labels), "consensus", {})]
    found[0].write(place)
    write_ontology(labels.ontology, place / "ontology.json", "json")  # type: ignore[arg-type]
    return read_member(place, device="cpu")


def _make_lexical(
    run: Run,
    lexical: Member | None,
    labels: LabelSpace,
    columns: NDArray[np.int64],
    targets: Mapping[str, str | None],
    *,
    train: str | Path | None,
) -> list[FittedMember]:
    """Return a `lexical` in the new label space, if there can be one.

    With the training corpus it is fitted for concepts of which only names are known. Without it,
    the given `lexical` of the run is taken.
    """
    own = lexical.model if lexical is not None else None
    config = own.config if isinstance(own, LexicalSystem) else LexicalSystem.Config()
    config = set_languages(config, run.languages)
    recorded = run.about["train"].get("path", "")
    if train is not None or (recorded and Path(recorded).exists()):
        corpus = map_labels(open_sources(run, train).train, _select_changed(targets))
        is_known = np.zeros(len(labels), bool)
        is_known[columns[columns >= 0]] = True
        model = LexicalSystem(config)
        labels = model.fit_unseen(corpus, labels, is_known)
    elif lexical is not None and isinstance(own, LexicalSystem):
        old = {new: old for old, new in targets.items() if new is not None}
        column = lexical.labels.column
        source = [column.get(old.get(label, label), -1) for label in labels.ids]
        model = own.adapt(labels, np.array(source, np.int64))
    else:
        return []
    return [FittedMember(labels, model, "lexical", dataclasses.asdict(config))]


def _list_name_readers(run: Run) -> Sequence[Member]:
    """Return the systems that a run is or has, among which those are that read names."""
    member: Member = run
    if isinstance(run.model, Migrated) and run.model.names is not None:
        member = run.model.names
    return member.model.members if isinstance(member.model, Consensus) else [member]


def _select_changed(targets: Mapping[str, str | None]) -> dict[str, str]:
    """Return the new label of each old one that another took the place of."""
    return {old: new for old, new in targets.items() if new is not None and new != old}


def _save(run: Run, model: Migrated, targets: Mapping[str, str | None], out: Path) -> None:
    """Write the run folder of a migrated system."""
    labels, ontology = model.labels, model.labels.ontology
    assert ontology is not None
    tables = run.settings.tables()
    tables["model"], tables["train"] = {"name": "migrated"}, {}
    write_text(out / "config.toml", config.dump(tables))
    save_labels(labels, out / "labels.tsv")
    write_ontology(ontology, out / "ontology.json", "json")
    (out / "model").mkdir()
    model.save(out / "model")
    _migrate_decision(run, labels, model.columns).save(out / "decision.json")
    earlier = read_migration(run.folder)
    moved = _select_changed(targets)
    mapping = {**{old: moved.get(new, new) for old, new in earlier.items()}, **moved}
    write_text(out / MIGRATION, json.dumps({"successors": mapping}, indent=1) + "\n")
    about = {key: value for key, value in run.about.items() if key not in ("format", "files")}
    source = {"model": run.settings.name, "version": name_version(run.folder)}
    about |= {"model": "migrated", "labels": labels.n_seen, "migrated_from": source}
    save_model_card(out, about)
    write_manifest(out, about)


def _migrate_decision(run: Run, labels: LabelSpace, columns: NDArray[np.int64]) -> Decision:
    """Return the decision in the new columns; of merged labels the most frequent one decides."""
    order = np.argsort(run.labels.frequency, kind="stable")
    old_columns = np.full(len(labels) + 1, -1, np.int64)
    old_columns[columns[order]] = order  # later ones, which are more frequent, win
    decision = run.decision
    if isinstance(run.model, Decides):
        thresholds = run.model.label_thresholds()
        default = float(np.median(thresholds)) if len(thresholds) else 0.5
        rule = PerLabel(thresholds, default).extend(len(run.labels))
        decision = dataclasses.replace(decision, rule=rule)
    decision = decision.for_columns(labels, old_columns[:-1])
    if isinstance(decision.rule, PerLabel):  # a name alone should be more likely right than wrong
        thresholds = decision.rule.thresholds.copy()
        is_new = old_columns[:-1] < 0
        thresholds[is_new] = np.maximum(thresholds[is_new], NO_EVIDENCE)
        decision = dataclasses.replace(
            decision, rule=dataclasses.replace(decision.rule, thresholds=thresholds)
        )
    return decision
