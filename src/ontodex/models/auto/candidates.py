"""Systems that suit a corpus, and the settings of each that are worth trying.

`SPACE` is the whole search space: for each system, alternatives to its defaults in the order in
which they are tried, the most rewarding first. `auto` and `tune` try these and nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ontodex.errors import ConfigError
from ontodex.features.compounds import COMPOUNDING
from ontodex.io.durations import format_clock
from ontodex.io.threads import count_cores
from ontodex.models import MODELS, find_model
from ontodex.models.attentive_bert.config import AttentiveBertConfig
from ontodex.types import Corpus, LabelSpace

Alternatives = tuple[tuple[str, Any], ...]

_KERNEL_CELLS = 2 * 10**7  # documents x labels: the weights of `kernel` are dense
_KERNEL_DOCUMENTS = 10_000
_KNN_DOCUMENTS = 200_000  # it compares a text with every one of them
_TREE_LABELS = 100  # fewer labels make no tree
# Seconds of a core for a word piece in a training step of a small encoder: three times what ranking
# takes (docs/papers/attentive-bert.md).
_PIECE_SECONDS = 1.2e-3
_PIECES_PER_WORD = 1.3
_TRAININGS = 3  # trials on parts of the documents, on train, and the last one with dev
_MEASURED = 200  # documents whose length is measured

# Settings of words: every system that counts words has them.
_WORDS: Alternatives = (
    ("title_weight", 3), ("compounds", True), ("ngrams", 2), ("min_df", 1), ("min_df", 3),
)  # fmt: skip
SPACE: dict[str, Alternatives] = {
    "lexical": (("smooth", 20.0), ("smooth", 2.0), ("l2", 10.0)),
    "linear": (*_WORDS, ("cost", 0.5), ("cost", 2.0), ("cost", 0.25)),
    "bonsai": (*_WORDS, ("cost", 0.5), ("cost", 2.0), ("n_trees", 5)),
    "parabel": (*_WORDS, ("cost", 0.5), ("cost", 2.0), ("n_trees", 5)),
    "kernel": (*_WORDS, ("width", 1.0), ("width", 4.0)),
    "knn": (*_WORDS,),
}
# Systems of one family err alike: the search first looks at one of each.
FAMILIES = {"linear": "weights", "bonsai": "weights", "parabel": "weights", "kernel": "kernel"}


def choose_systems(
    train: Corpus, labels: LabelSpace, device: str, encoder: str = "", *, seconds: float = 0.0
) -> dict[str, str]:
    """Return every candidate with the reason why it is left out, "" for one that is tried.

    `encoder` is the folder of a pretrained encoder, where there is one; `seconds` is the budget.
    """
    n_docs, n_labels, is_text = len(train), labels.n_seen, train.kind == "text"
    has_names = labels.ontology is not None and any(labels.ontology.names.values())
    reasons = {
        "lexical": "" if is_text and has_names else "needs texts and an ontology with names",
        "linear": "",
        "bonsai": "" if n_labels >= _TREE_LABELS else f"for {_TREE_LABELS} labels or more",
        "knn": "" if n_docs <= _KNN_DOCUMENTS else "compares a text with every document",
        "kernel": "for smaller corpora",
        "parabel": "" if n_labels >= _TREE_LABELS else f"for {_TREE_LABELS} labels or more",
        "semantic": "needs a pretrained encoder (model.encoder)",
        "attentive-bert": "needs a pretrained encoder (model.encoder)",
        "attentive": "needs a GPU",
    }
    if n_docs <= _KERNEL_DOCUMENTS and n_docs * n_labels <= _KERNEL_CELLS:
        reasons["kernel"] = ""
    has_gpu = device.startswith("cuda")
    if encoder:
        reasons["semantic"] = reasons["lexical"]
    if has_gpu and is_text:
        reasons["attentive-bert" if encoder else "attentive"] = ""
    elif encoder and is_text:
        needed = estimate_bert_seconds(train)
        duration = format_clock(needed)
        reasons["attentive-bert"] = (
            f"takes about {duration} on this CPU: needs such a budget, or a GPU"
            if needed > seconds
            else ""
        )
    return reasons


def estimate_bert_seconds(train: Corpus) -> float:
    """Return about how long `attentive-bert` takes on this CPU, trials and last training."""
    config = AttentiveBertConfig()
    rows = np.unique(np.linspace(0, max(len(train) - 1, 0), _MEASURED).astype(np.int64))
    words = [len(text.split()) for text in train.select(rows).texts()]
    pieces = min(_PIECES_PER_WORD * float(np.mean(words)), config.window * config.windows)
    passes = config.train.fit_to_corpus(len(train)).epochs * len(train)
    return _TRAININGS * passes * pieces * _PIECE_SECONDS / count_cores()


def check_systems(names: Sequence[str]) -> None:
    """Refuse candidates that cannot be trials."""
    for name in names:
        if name in ("auto", "consensus"):
            raise ConfigError(f"[model] systems: {name!r} joins other systems and is no candidate")
        find_model(name)


def list_alternatives(
    system: str, kind: str, *, languages: Sequence[str] = (), n_fields: int = 2
) -> Alternatives:
    """Return the settings to try for a system, in order; those of words only for texts.

    `languages` are those of the documents, where they are known; `n_fields` says how many text
    fields they have, because a title is one of several.
    """
    found = SPACE.get(system) or _list_network_alternatives(system)
    if system in SPACE and getattr(find_model(system).Config(), "lemmas", None):
        found = (("lemmas", ""), *found)  # words as they are
    useless = {"lemmas", *(name for name, _ in _WORDS)} if kind != "text" else set[str]()
    if languages and COMPOUNDING.isdisjoint(languages):
        useless.add("compounds")
    if n_fields < 2:
        useless.add("title_weight")
    return tuple(pair for pair in found if pair[0] not in useless)


def _list_network_alternatives(system: str) -> Alternatives:
    """Return half and twice the learning rate, and other dropouts, for systems that have them."""
    if system not in MODELS:
        return ()
    config = find_model(system).Config()
    loop = getattr(config, "train", None)
    found: list[tuple[str, Any]] = []
    if dataclasses.is_dataclass(loop) and hasattr(loop, "lr"):
        found += [("train.lr", loop.lr / 2), ("train.lr", loop.lr * 2)]
    if hasattr(config, "dropout"):
        found += [("dropout", value) for value in (0.2, 0.5) if value != config.dropout]
    return tuple(found)
