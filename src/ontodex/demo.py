"""`ontodex demo`: the whole way on the bundled sample, told as it goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ontodex.config import Table
from ontodex.data import get
from ontodex.ontology import read_ontology
from ontodex.read import open_corpus
from ontodex.recipe import train
from ontodex.run import load
from ontodex.train import store

HEADLINE = ("P@1", "P@3", "P@5", "nDCG@5", "MiF")
# Sized for two thousand short articles and a CPU; the defaults are for tens of thousands and a GPU.
SETTINGS: dict[str, Table] = {
    "attentionxml": {
        "hidden": 128, "width": 128, "value": 128, "bag": 512, "train": {"batch": 32, "epochs": 15}
    },
    "levelwise": {
        "hidden": 64, "width": 128, "value": 64, "bag": 512, "bottleneck": 128,
        "train": {"batch": 32, "epochs": 12},
        "pointer": {"embedding": 64, "hidden": 64, "train": {"epochs": 6}},
    },
}  # fmt: skip


def run_demo(out: Path, model: str, *, say: Callable[[str], object]) -> None:
    """Write the sample, train `model` beside the floor, evaluate both, index three documents."""
    data = out / "sample"
    get("sample", data)
    say(f"sample written to {data}: documents, and an ontology of concepts in four levels")
    ontology = read_ontology(data / "ontology.json")
    corpora = {name: open_corpus(data / f"{name}.jsonl") for name in ("train", "dev", "test")}
    for name in dict.fromkeys(["popularity", model]):
        folder = out / name
        if store.is_finished(folder):
            run = load(folder)
        else:
            run = train(
                {"model": {"name": name, **SETTINGS.get(name, {})}},
                folder,
                train=corpora["train"],
                dev=corpora["dev"],
                ontology=ontology,
            )
        metrics = run.evaluate(corpora["test"], report=True)
        shown = "  ".join(f"{key} {100 * metrics[key]:.1f}" for key in HEADLINE)
        say(f"{name:12} trained in {run.about['train_seconds']:5.1f} s   test: {shown}")
    for doc in list(corpora["test"])[:3]:
        say(f"\n{doc.text}\n")
        for suggestion in run.suggest(doc, limit=5):
            mark = "+" if suggestion.label in doc.labels else " "
            place = " > ".join(suggestion.path)
            say(f"  {mark} {suggestion.probability:.3f}  {suggestion.label}  {place}")
    say("\n+ marks what the indexers chose. Next: docs/quickstart.md")
