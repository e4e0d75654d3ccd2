"""The recipe of a training: corpora and an ontology in, a run folder out.

settings ─ claim the folder ─ label space ─ fit ─ tune the decision on dev ─ save ─ manifest
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ontodex import __version__
from ontodex.config import check_needed
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.label_names import match_labels
from ontodex.corpora.open import Documents, ReadCounts, open_mapped, require_files
from ontodex.corpora.split import set_aside
from ontodex.errors import DataError
from ontodex.io.device import choose_device, describe_machine, describe_thread_limit
from ontodex.io.files import write_text
from ontodex.models.interface import Decides, Describes, Model, Refits, Resumes
from ontodex.ontology.open import open_ontology, write_ontology
from ontodex.runs.claim import LOCK, claim_data, claim_folder, remove_work
from ontodex.runs.folder import save_labels, write_manifest
from ontodex.runs.languages import find_corpus_languages, prefer_languages
from ontodex.runs.model_card import save_model_card
from ontodex.runs.run import RANKS, Run, load
from ontodex.runs.settings import RunSettings, list_needed_paths, merge_keywords, resolve
from ontodex.training.clock import start_clock
from ontodex.training.distributed import on_rank_zero
from ontodex.types import Corpus, LabelSpace, Ontology, Ranking

logger = logging.getLogger(__name__)


def train(
    model: str | None = None,
    *,
    train: Documents,
    out: str | Path,
    dev: Documents | None = None,
    ontology: str | Path | Ontology | None = None,
    language: str | Sequence[str] | None = None,
    device: str = "auto",
    config: str | Path | Mapping[str, Any] | None = None,
    mapping: FieldMapping = NO_MAPPING,
    **settings: Any,
) -> Run:
    """Train a system, write the run folder `out`, and return the run.

    model       name of the system; docs/papers has a page for each
    train, dev  a corpus, a path in any corpus format, or documents: dicts with the keys of JSON
                lines, such as {"text": ..., "labels": [...]}. Without dev, a tenth of train is set
                aside, and learned too at the end by systems that can
    ontology    an ontology or a path in any ontology format
    language    language of the documents, or several: code or name; else guessed from the texts
    device      auto, cpu or cuda
    config      a TOML file of settings, or its tables as a dict; keyword settings override it
    mapping     columns of train and dev with text, labels and id, where they have other names:
                `ontodex.FieldMapping.of(text_fields=["headline", "content"], label_field="topics")`
    settings    settings as keywords, by one rule:
                labels={...} and decide={...} are the tables of these names, refit=True is the
                setting of [train], loop={...} is the table [model.train] (epochs, lr, ...);
                every other keyword is a setting of the table [model], with dicts for its tables

    A training that was interrupted continues when it is called again with the same arguments.

    >>> run = ontodex.train(
    ...     "linear", train="train.jsonl", ontology="ontology.json", out="runs/linear",
    ...     cost=2.0, decide={"rule": "top-k", "top_k": 2},
    ... )
    >>> run.settings.model.cost, run.settings.decide.top_k
    (2.0, 2)
    """
    if language is not None:
        settings["language"] = language
    resolved = resolve(merge_keywords(model, config, settings))
    check_needed(resolved.name, resolved.model)
    out = Path(out)
    # The folder is claimed before a file is read: a bad setting or folder is reported at once.
    with claim_folder(out, resolved):
        require_files(train, dev, ontology, *list_needed_paths(resolved.model))
        known = None if ontology is None else open_ontology(ontology)
        return _train(
            resolved,
            out,
            train=_open(train, "train", known, mapping),
            dev=None if dev is None else _open(dev, "dev", known, mapping),
            ontology=known,
            device=device,
            mapping=mapping,
            paths={"train": _get_path(train), "dev": _get_path(dev)},
        )


def _get_path(corpus: Documents | None) -> dict[str, str]:
    """Return the path of a corpus, by which `learn --retrain` finds it again."""
    return {"path": str(Path(corpus).resolve())} if isinstance(corpus, str | Path) else {}


def _open(corpus: Documents, part: str, ontology: Ontology | None, mapping: FieldMapping) -> Corpus:
    """Open documents with ids for labels that are names; log how many labels were read."""
    opened = open_mapped(corpus, mapping)
    source = f"{part} ({corpus})" if isinstance(corpus, str | Path) else part
    ReadCounts.of(opened).log(source)
    return match_labels(opened, ontology, source)


def _train(
    settings: RunSettings,
    out: Path,
    *,
    train: Corpus,
    dev: Corpus | None,
    ontology: Ontology | None,
    device: str,
    mapping: FieldMapping,
    paths: Mapping[str, dict[str, str]],
) -> Run:
    """Train in a claimed folder."""
    if len(train) == 0:
        raise DataError("the training corpus has no documents")
    started = time.monotonic()
    languages = find_corpus_languages(settings.train.languages, train, ontology)
    settings = settings.read_languages(languages)
    whole = train  # the documents that the run knows afterwards, by which `update` knows them again
    refits = _decide_refit(settings, is_dev_given=dev is not None)
    if dev is None:
        train, dev = set_aside(train)
        whole = whole if refits else train
    if ontology is not None:
        ontology = prefer_languages(ontology, languages)
    labels = _collect_labels(settings, train, ontology)
    refuse_foreign_ontology(labels)
    learned = train.join(dev) if refits else train  # in the end
    final = _collect_labels(settings, learned, ontology) if refits else labels
    warn_suspicious_data(labels, final, dev)
    on_rank_zero(lambda: _begin(labels, train, dev, out), "begin the run")
    model = settings.model_class(settings.model, device=choose_device(device))
    if isinstance(model, Resumes):
        model.work = work = out / "work"
        earlier = on_rank_zero(lambda: start_clock(work), "read the clock of the run")
        started -= earlier or 0.0
    model.fit(train, dev, labels)
    ranking = _rank_dev(model, dev)
    if isinstance(model, Refits) and refits:
        _refit(model, learned, final, out)
        if ranking is not None:
            ranking = translate_columns(ranking, labels, final)
        labels = final
    about = {
        "ontodex": __version__,
        "model": settings.name,
        "languages": list(languages),
        "refit": refits,
        "train": {"documents": len(learned), "key": whole.key, **paths["train"]},
        "dev": {"documents": len(dev), "key": dev.key, **paths["dev"]},
        "labels": labels.n_seen,
        "train_seconds": round(time.monotonic() - started, 3),
        "hardware": describe_machine(choose_device(device)) + describe_thread_limit(),
        **({"fields": mapping.to_dict()} if mapping else {}),
    }
    on_rank_zero(lambda: _save(model, settings, labels, dev, ranking, about, out), "save the run")
    return load(out, device=device)


def _decide_refit(settings: RunSettings, *, is_dev_given: bool) -> bool:
    """Return whether the system learns again from train and dev together."""
    if settings.train.refit != "auto":
        return settings.train.refit
    if is_dev_given:
        return False
    can_refit = issubclass(settings.model_class, Refits)
    if not can_refit:
        logger.info(
            "%s does not learn dev: the tenth of the documents that is set aside only tunes its "
            "probabilities and thresholds; --dev gives it other documents",
            settings.name,
        )
    return can_refit


def _collect_labels(settings: RunSettings, train: Corpus, ontology: Ontology | None) -> LabelSpace:
    """Return the labels to learn; a corpus without any is refused."""
    labels = LabelSpace.of(train, ontology, min_count=settings.labels.min_count)
    if labels.n_seen == 0:
        refuse_unlabelled(train, "training")
        raise DataError(
            f"every label is in fewer than {settings.labels.min_count:,} training documents",
            hint="lower --set labels.min_count",
        )
    return labels


def refuse_unlabelled(corpus: Corpus, which: str) -> None:
    if not any(corpus.labels()):
        counts = ReadCounts.of(corpus)
        raise DataError(
            f"no {which} document has a label",
            hint=counts.suggest_label_field() if counts.others else "give a labelled corpus",
        )


def refuse_foreign_ontology(labels: LabelSpace) -> None:
    """Refuse an ontology that has none of the labels: it belongs to other documents."""
    ontology, known = labels.ontology, labels.ids[: labels.n_seen]
    if ontology is not None and not any(label in ontology for label in known):
        raise DataError(
            f"no label of the training documents (of {labels.n_seen:,}) is in the ontology: "
            f"they are like {known[0]!r}, its concepts like {next(iter(ontology.ids), '')!r}",
            hint="give the ontology that has them as ids, names or notations (--ontology), or none",
        )


def warn_suspicious_data(labels: LabelSpace, final: LabelSpace, dev: Corpus) -> None:
    """Warn of likely mistakes in the data before hours of training.

    `final` are the labels that the run knows in the end, with those of dev where it learns dev too.
    """
    known = labels.ids[: labels.n_seen]
    warn_unknown_labels(final.ids[: final.n_seen], labels.ontology, "training")
    if set(known).isdisjoint(label for own in dev.labels() for label in own):
        logger.warning(
            "no dev document has a label that training documents have: thresholds and early "
            "stopping, which dev should tune, keep their defaults"
        )


def warn_unknown_labels(labels: Sequence[str], ontology: Ontology | None, which: str) -> None:
    """Warn of labels that are not in the ontology, where there is one."""
    unknown = [label for label in labels if label not in (ontology or ())]
    if ontology is not None and unknown:
        logger.warning(
            "labels of the %s documents that are not in the ontology: %s of %s (%r is one); "
            "they have no place there; `ontodex check` lists them",
            which, f"{len(unknown):,}", f"{len(labels):,}", unknown[0],
        )  # fmt: skip


def _begin(labels: LabelSpace, train: Corpus, dev: Corpus, out: Path) -> None:
    """Write the labels, the ontology and the keys of the data before training begins."""
    claim_data(out, train=train, dev=dev, ontology=labels.ontology)
    save_labels(labels, out / "labels.tsv")
    if labels.ontology is not None:
        write_ontology(labels.ontology, out / "ontology.json", "json")


def _rank_dev(model: Model, dev: Corpus) -> Ranking | None:
    """Rank dev for tuning the decision rule; a system that decides by itself uses no rule."""
    return None if isinstance(model, Decides) else model.rank(dev, RANKS)


def _refit(model: Refits, documents: Corpus, labels: LabelSpace, out: Path) -> None:
    """Train on train and dev together."""
    if isinstance(model, Resumes):
        model.work = out / "work" / "refit"
    on_rank_zero(lambda: save_labels(labels, out / "labels.tsv"), "write the labels")
    model.refit(documents, labels)


def translate_columns(ranking: Ranking, old: LabelSpace, new: LabelSpace) -> Ranking:
    """Return the same ranking in the columns of a label space that has all of the labels."""
    column = np.array([*(new.column[label] for label in old.ids), -1])
    return Ranking.sort(column[ranking.columns], ranking.probabilities, ranking.k)


def _save(
    model: Model,
    settings: RunSettings,
    labels: LabelSpace,
    dev: Corpus,
    ranking: Ranking | None,
    about: Mapping[str, Any],
    out: Path,
) -> None:
    """Save the system and its decision; the manifest comes last and finishes the run."""
    from ontodex.decide.decision import tune_decision

    (out / "model").mkdir(exist_ok=True)
    model.save(out / "model")
    if isinstance(model, Describes):
        for name, page in model.report_pages().items():
            write_text(out / name, page)
    if ranking is None:  # the rule is never applied; only limit and ancestors are
        ranking = Ranking(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))
        dev = dev.select(np.arange(0))
    decision = tune_decision(settings.decide, ranking, labels.gold(dev), labels)
    decision.save(out / "decision.json")
    remove_work(out)
    save_model_card(out, about)
    write_manifest(out, about)
    (out / LOCK).unlink(missing_ok=True)  # here, so that a kill after the manifest leaves none
