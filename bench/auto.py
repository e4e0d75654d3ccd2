"""`auto` beside each single system and the best consensus chosen by hand, on the same test part.

    python bench/auto.py medline --budget 10m
    python bench/auto.py sample --budget 60s --out results.md
    python bench/auto.py tibkat --documents 2000 --budget 2m

Corpora: sample, medline, tibkat, eurlex57k; all but the sample need $ONTODEX_DATA, else
../shared/data. Each single system is trained with its defaults (a tenth of train set aside where a
corpus has no dev), then refitted as `auto` is. "By hand" is the best of the pairs and triples of
these runs with weights from dev, under each join; it is chosen on dev, as a person would.

With `--cpu-seconds` the budget is processor time of one core, so that other work of the machine
takes nothing from a search.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import ontodex
from ontodex.corpora.datasets import get
from ontodex.corpora.open import open_corpus
from ontodex.corpora.split import set_aside, split_by_hash
from ontodex.evaluation.ranking import Metric, f1, ndcg, precision, score_documents
from ontodex.models.auto import budget, trials
from ontodex.models.consensus.joins import JOINS
from ontodex.models.consensus.reranker import LabelCounts
from ontodex.models.consensus.system import Consensus
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, LabelSpace, Ontology, Ranking

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ONTODEX_DATA", ROOT.parent / "shared" / "data"))
FIGURES: dict[str, tuple[Metric, int]] = {
    "P@1": (precision, 1), "nDCG@5": (ndcg, 5), "F1@5": (f1, 5),
}  # fmt: skip
Parts = tuple[Corpus, Corpus, Corpus, Ontology | None]


def read_parts(name: str, folder: Path, documents: int = 0) -> Parts:
    """Return train, dev, test and the ontology of a data set.

    Of TIBKAT, `documents` takes so many records, dev among them, at random.
    """
    if name == "sample":
        get("sample", folder)
        train, dev, test = (open_corpus(folder / f"{p}.jsonl") for p in ("train", "dev", "test"))
        return train, dev, test, read_ontology(folder / "ontology.json")
    if name == "eurlex57k":
        source = DATA / name
        train, dev, test = (open_corpus(source / f"{p}.jsonl.xz") for p in ("train", "dev", "test"))
        return train, dev, test, read_ontology(source / "eurovoc.json")
    if name == "medline":
        citations = open_corpus(DATA / name / "pubmed20n0014.xml.gz")
        full = [bool(doc.labels) and "abstract" in doc.fields for doc in citations]
        train, dev, test = split_by_hash(citations.select(np.array(full)))
        return train, dev, test, read_ontology(DATA / "mesh" / "mesh_id_label_mappings.tsv.gz")
    whole = open_corpus(DATA / name / "train.jsonl.xz")
    if documents:
        whole = whole.select(np.sort(np.random.default_rng(1).permutation(len(whole))[:documents]))
    train, dev = set_aside(whole)
    test = open_corpus(DATA / name / "test.jsonl.xz")
    return train, dev, test, read_ontology(DATA / name / "gnd-names-en.tsv.gz")


def count_processor_time() -> None:
    """Make budgets and trials count the processor time of one core."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # so that no system starts processes
    clock = SimpleNamespace(monotonic=lambda: sum(os.times()[:4]))
    for module in (budget, trials):
        vars(module)["time"] = clock


def measure(gold: csr_array, ranking: Ranking) -> dict[str, float]:
    some = np.diff(gold.indptr) > 0
    return {
        name: 100 * float(score_documents(metric, k, gold, ranking)[some].mean())
        for name, (metric, k) in FIGURES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=["sample", "medline", "tibkat", "eurlex57k"])
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--systems", nargs="+", default=["lexical", "linear", "bonsai", "knn"])
    parser.add_argument("--documents", type=int, default=0, help="records of TIBKAT; 0 = all")
    parser.add_argument(
        "--cpu-seconds", action="store_true", help="the budget is processor time of one core"
    )
    parser.add_argument("--only-auto", action="store_true", help="leave the other systems out")
    parser.add_argument(
        "--runs", type=Path, help="keep the runs in this folder, and use those there"
    )
    parser.add_argument("--out", type=Path, help="write the table here too")
    options = parser.parse_args()
    if options.cpu_seconds:
        count_processor_time()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.runs or Path(temporary)
        parts = read_parts(options.name, folder / "data", options.documents)
        rows = [measure_auto(parts, folder / "auto", options.budget)]
        if not options.only_auto:
            rows += measure_by_hand(parts, folder, options.systems)
    lines = [
        f"| {options.name} | P@1 | nDCG@5 | F1@5 | train s |",
        "|---|---|---|---|---|",
        *(format_row(row) for row in rows),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def format_row(row: dict[str, Any]) -> str:
    figures = " | ".join(f"{row[name]:.2f}" for name in FIGURES)
    return f"| {row['name']} | {figures} | {row['seconds']:.0f} |"


def measure_auto(parts: Parts, out: Path, budget: str) -> dict[str, Any]:
    train, dev, test, ontology = parts
    started = time.monotonic()
    if not (out / "manifest.json").exists():
        ontodex.train(
            "auto", train=train, dev=dev, ontology=ontology, out=out, budget=budget, refit=True,
            device="cpu",
        )  # fmt: skip
    seconds = time.monotonic() - started
    run = ontodex.load(out)
    found = run.model.record["candidates"]  # type: ignore[attr-defined]
    chosen = [one for one in found if one["weight"] > 0]
    names = " + ".join(f"{one['weight']:g} {one['system']}" for one in chosen)
    report(f"auto: {names}, {seconds:.0f} s")
    figures = measure(run.labels.gold(test), run.rank(test, 5))
    return {"name": f"`auto`, {budget}: {names}", "seconds": seconds, **figures}


def measure_by_hand(parts: Parts, folder: Path, systems: list[str]) -> list[dict[str, Any]]:
    """Measure each single system, and the consensus of them that is best on dev."""
    train, dev, test, ontology = parts
    rows: list[dict[str, Any]] = []
    fitted: list[ontodex.Run] = []
    refitted: list[ontodex.Run] = []
    for name in systems:
        for refit, kept in ((False, fitted), (True, refitted)):
            out = folder / f"{name}{'-refit' * refit}"
            if not (out / "manifest.json").exists():
                ontodex.train(
                    name, train=train, dev=dev, ontology=ontology, out=out, refit=refit,
                    device="cpu",
                )  # fmt: skip
            kept.append(ontodex.load(out))
        run = refitted[-1]
        figures = measure(run.labels.gold(test), run.rank(test, 5))
        rows.append({"name": f"`{name}`", "seconds": run.about["train_seconds"], **figures})
        report(format_row(rows[-1]))
    labels = LabelSpace.of(train, ontology)
    gold = labels.gold(dev)
    best: tuple[float, Consensus, list[int]] | None = None
    for size in (2, 3):
        for chosen in combinations(range(len(systems)), size):
            for join in JOINS:
                joined = Consensus.of([fitted[i] for i in chosen], labels, join=join)
                joined.fit_weights(dev, gold)
                score = measure(gold, joined.rank(dev, 5))["nDCG@5"]
                report(f"by hand: {[systems[i] for i in chosen]} {join}: {score:.2f} on dev")
                if best is None or score > best[0]:
                    best = score, joined, list(chosen)
    assert best is not None
    _, joined, members = best
    full = refitted[members[0]].labels
    joined.replace_members(
        [refitted[i] for i in members], full, LabelCounts.of(full, full.gold(train.join(dev)))
    )
    weights = joined.weights.tolist()
    names = " + ".join(f"{w:g} {systems[i]}" for i, w in zip(members, weights, strict=True))
    figures = measure(full.gold(test), joined.rank(test, 5))
    seconds = sum(float(refitted[i].about["train_seconds"]) for i in members)
    rows.append({"name": f"by hand: {names} ({joined.join})", "seconds": seconds, **figures})
    return rows


def report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
