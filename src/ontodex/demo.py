"""`ontodex demo`: train, evaluate and suggest on the bundled sample, with a line for each step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ontodex
from ontodex.config import Table
from ontodex.corpora.datasets import get
from ontodex.runs.folder import is_finished

HEADLINE = ("P@1", "P@3", "P@5", "nDCG@5", "MiF")
# Sized for two thousand short articles and a CPU; the defaults are for tens of thousands and a GPU.
SETTINGS: dict[str, Table] = {
    "auto": {"budget": "60s", "refit": True},
    "attentive": {
        "hidden": 128, "width": 128, "value_dim": 128, "bag": 512,
        "loop": {"batch_size": 32, "epochs": 15},
    },
    "attentive-levels": {
        "hidden": 64, "width": 128, "value_dim": 64, "bag": 512,
        "loop": {"batch_size": 32, "epochs": 12},
        "pointer": {"embedding": 64, "hidden": 64, "steps": 400},
    },
    "levelwise": {
        "hidden": 64, "width": 128, "maps": 32, "bottleneck": 128,
        "loop": {"batch_size": 32, "epochs": 12},
        "pointer": {"embedding": 64, "hidden": 64, "steps": 400},
    },
}  # fmt: skip


def run_demo(out: Path, model: str, *, say: Callable[[str], object]) -> None:
    """Write the sample, train `model` and the baseline, evaluate both, index three documents."""
    data = out / "sample"
    get("sample", data)
    say(f"sample written to {data}: documents, and an ontology of concepts in four levels")
    test = ontodex.open_corpus(data / "test.jsonl")
    for name in dict.fromkeys(["popularity", model]):
        run = _load_or_train(name, data, out / name)
        metrics = ontodex.evaluate(run, test, report=True)
        shown = "  ".join(f"{key} {100 * metrics[key]:.1f}" for key in HEADLINE)
        say(f"{name:12} trained in {run.about['train_seconds']:5.1f} s   test: {shown}")
    if model == "auto":
        say(f"what auto tried, and why it chose these: {out / model / 'auto.html'}")
    for doc in list(test)[:3]:
        say(f"\n{doc.text}\n")
        for suggestion in run.suggest(doc, limit=5):
            mark = "+" if suggestion.label in doc.labels else " "
            place = " > ".join(suggestion.path)
            say(f"  {mark} {suggestion.probability:.3f}  {suggestion.label}  {place}")
    say("\n+ marks labels that the indexers assigned. Next: docs/quickstart.md")


def _load_or_train(name: str, data: Path, folder: Path) -> ontodex.Run:
    if is_finished(folder):
        return ontodex.load(folder)
    return ontodex.train(
        name,
        train=data / "train.jsonl",
        dev=data / "dev.jsonl",
        ontology=data / "ontology.json",
        out=folder,
        **SETTINGS.get(name, {}),
    )
