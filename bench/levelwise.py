"""Tables 2 to 5 and Figure 5 of paper 000 in our numbers, from a prepared folder.

    python bench/levelwise.py carried/eurlex out --ontology carried/eurlex/ontology.json \
        --rows full words sampling threshold label max flat --seeds 1 --set model.max_level=4

The folder is what `ontodex prepare train dev test --out` wrote; nothing outside the core is needed
(matplotlib for the figure), so this runs on a GPU machine. What is finished lies below `out`: a
command that was stopped goes on, and rows that differ only after pass 1 or pass 2 share them.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ontodex.config import build, read
from ontodex.decide.threshold import above
from ontodex.evaluate import evaluate
from ontodex.evaluate.sets import count_by_document, count_by_label, macro, micro
from ontodex.models.levelwise import Levelwise
from ontodex.ontology import read_ontology
from ontodex.train.device import describe, pick
from ontodex.types import Corpus, LabelSpace, Ranking

ROWS: dict[str, dict[str, Any]] = {
    "full": {},
    "words": {"inputs": "words", "merge": "threshold"},
    "keywords": {"inputs": "words+keywords"},
    "sampling": {"merge": "sampling"},
    "threshold": {"merge": "threshold"},
    "label": {"pointer": {"unit": "label"}},
    "printed": {"pointer": {"ancestor_gate": "printed"}},
    "ungated": {"pointer": {"ancestor_gate": "off"}},
    "max": {"pooling": "max"},
    "fixed": {"pooling": "fixed", "chunks": 8},
    "flat": {"max_level": 1, "merge": "threshold"},
    "attention": {"reader": "attention"},
    "attention-threshold": {"reader": "attention", "merge": "threshold"},
    "attention-flat": {"reader": "attention", "max_level": 1, "merge": "threshold"},
    "all-documents": {"documents": "all"},
    "expanded": {"expand": "lowest"},
}
TABLE_4 = {  # our row -> (the paper's name, its MaP, MaR, MaF)
    "sampling": ("Sampling", 49.56, 51.21, 50.37),
    "max": ("Max pooling", 51.56, 65.52, 57.70),
    "label": ("Dynamic pooling & label-based", 61.20, 57.21, 59.14),
    "full": ("Dynamic pooling & level-based", 53.22, 70.65, 60.77),
}
RANKED = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5")
SETS = ("MiP", "MiR", "MiF", "MaP", "MaR", "MaF")
MOST_K = 10
RARE = (10, 50)  # training documents of a rare label


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ontology", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", default=["full"], choices=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--min-count", type=int, default=1, help="of labels, in training")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    corpora = {part: Corpus.open(arguments.folder / part) for part in ("train", "dev", "test")}
    ontology = read_ontology(arguments.ontology)
    labels = LabelSpace.of(corpora["train"], ontology, min_count=arguments.min_count)
    for seed in arguments.seeds:
        for row in arguments.rows:
            result = arguments.out / f"{row}-{seed}.json"
            if not result.exists():
                found = measure(row, seed, arguments.overrides, corpora, labels, arguments.out)
                result.write_text(json.dumps(found, indent=1) + "\n")
            say(json.dumps(summary(json.loads(result.read_text()))))
    results = {path.stem: json.loads(path.read_text()) for path in arguments.out.glob("*-*.json")}
    write_tables(results, arguments.out)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def measure(
    row: str,
    seed: int,
    overrides: Sequence[str],
    corpora: Mapping[str, Corpus],
    labels: LabelSpace,
    out: Path,
) -> dict[str, Any]:
    """Train one row, or what of it is not there yet, and measure everything on test."""
    model = dict(read(None, overrides).get("model", {}))
    for key, value in {**ROWS[row], "train": {"seed": seed}}.items():
        model[key] = {**model.get(key, {}), **value} if isinstance(value, dict) else value
    device = pick("auto")
    system = Levelwise(build(Levelwise.Config, model, "model"), device=device)
    system.work = out / "work"
    system.work.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    system.fit(corpora["train"], corpora["dev"], labels)
    took = time.monotonic() - began
    began = time.monotonic()
    ranking = system.rank(corpora["test"], 100)
    speed = len(ranking) / (time.monotonic() - began)
    decided = system.decide(corpora["test"])
    gold = labels.gold(corpora["test"])
    metrics = evaluate(gold, ranking, decided, labels, replicates=0)
    return {
        "row": row,
        "seed": seed,
        "settings": model,
        "hardware": describe(device),
        "seconds": {"in this process": round(took, 1)}
        | {name: round(value, 1) for name, value in system.seconds.items()},
        "memory GiB": memory(device),
        "documents a second": round(speed),
        "test": {name: round(100 * metrics[name], 2) for name in (*RANKED, "PSP@5", *SETS)},
        "passes": level_metrics(system, corpora, labels),
        "curves": system.curves,
    }


def memory(device: str) -> float | None:
    """The most GPU memory that tensors took."""
    if not device.startswith("cuda"):
        return None
    import torch

    return round(torch.cuda.max_memory_allocated() / 2**30, 2)


def level_metrics(
    system: Levelwise, corpora: Mapping[str, Corpus], labels: LabelSpace
) -> list[dict[str, Any]]:
    """For each pass, for each level: the best fixed K (chosen on dev) and OFO, on the test
    documents that have a label there; and the recall of rare labels over all levels."""
    found = []
    dev, test = (system.level_rankings(corpora[part]) for part in ("dev", "test"))
    golds = {part: labels.gold(corpora[part]) for part in ("dev", "test")}
    for number, one in enumerate(system.passes):
        levels: dict[str, Any] = {}
        for place, level in enumerate(system.levels):
            names = {labels.name(int(column)): int(column) for column in level.columns}
            groups = {str(level.number): level.columns}
            if "Humans" in names:
                rest = level.columns[level.columns != names["Humans"]]
                groups[f"{level.number} without Humans"] = rest
            for name, columns in groups.items():
                on_dev = of_level(golds["dev"], dev[number][place], columns)
                on_test = of_level(golds["test"], test[number][place], columns)
                best = best_k(*on_dev)
                truth, ranking = on_test
                chosen = ranking.keep(above(ranking, one.at_level))
                levels[name] = {
                    "documents": len(ranking),
                    "labels": len(columns),
                    "K": best,
                    "top K": figures(truth, ranking.cut(best)),
                    "OFO": figures(truth, chosen),
                }
        kept = [r.keep(above(r, one.thresholds)) for r in test[number]]
        found.append({"levels": levels, "rare": rare_recall(golds["test"], kept, labels)})
    return found


def of_level(gold: csr_array, ranking: Ranking, columns: Any) -> tuple[csr_array, Ranking]:
    """Gold and answers of the documents that have one of these labels, of these labels only."""
    wanted = np.zeros(gold.shape[1], dtype=bool)
    wanted[columns] = True
    rows, places = gold.nonzero()
    kept = wanted[places]
    shape = gold.shape
    own = csr_array((np.ones(int(kept.sum()), np.int8), (rows[kept], places[kept])), shape=shape)
    known = np.diff(own.indptr) > 0
    answers = ranking.take(known)
    return csr_array(own[known]), answers.keep(np.isin(answers.columns, columns))


def best_k(gold: csr_array, ranking: Ranking) -> int:
    """The number of labels that, given to every document, has the highest micro-F."""
    if not len(ranking):
        return 1
    found = [micro(count_by_document(gold, ranking.cut(k)))["MiF"] for k in range(1, MOST_K + 1)]
    return 1 + int(np.argmax(found))


def figures(gold: csr_array, decided: Ranking) -> dict[str, float]:
    if not len(decided):
        return {}
    counts = count_by_document(gold, decided)
    return {n: round(100 * v, 2) for n, v in {**micro(counts), **macro(counts)}.items()}


def rare_recall(gold: csr_array, kept: Sequence[Ranking], labels: LabelSpace) -> dict[str, Any]:
    """Of the occurrences of rare labels, how many were predicted; and how many predictions hit."""
    least, most = RARE
    rare = np.flatnonzero((labels.frequency >= least) & (labels.frequency <= most))
    counts = [count_by_label(gold, ranking) for ranking in kept]
    hits = sum(int(c.hit[rare].sum()) for c in counts)
    predicted = sum(int(c.predicted[rare].sum()) for c in counts)
    true = int(counts[0].gold[rare].sum())
    return {
        "labels": len(rare),
        "occurrences": true,
        "recall": round(100 * hits / max(1, true), 2),
        "precision": round(100 * hits / max(1, predicted), 2),
    }


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("row", "seed", "seconds", "memory GiB", "documents a second", "test")
    return {name: result[name] for name in kept} | {
        "rare": [one["rare"]["recall"] for one in result["passes"]]
    }


# ------------------------------------------------------------------------------ tables, figure


def write_tables(results: Mapping[str, Any], out: Path) -> None:
    """tables.md with Tables 2 to 5, figure5.png; the tables are printed too."""
    text = "\n\n".join(
        [
            *(level_table(results, names) for names in (SETS[:3], SETS[3:])),
            merge_table(results),
            ranking_table(results),
        ]
    )
    (out / "tables.md").write_text(text + "\n")
    say(text)
    for stem, result in results.items():
        if stem.startswith("full-"):
            draw(result["curves"], out / f"figure5-{result['seed']}.png")


def level_table(results: Mapping[str, Any], names: Sequence[str]) -> str:
    """Table 2 (micro) or 3 (macro): blocks of inputs, levels side by side, top K and OFO."""
    blocks = {
        "words": ("words", 0),
        "words, keywords": ("full", 0),
        "words, keywords, levels": ("full", 1),
    }
    lines: list[str] = []
    for title, (row, number) in blocks.items():
        runs = [r for r in results.values() if r["row"] == row and len(r["passes"]) > number]
        if not runs:
            continue
        tables = [run["passes"][number]["levels"] for run in runs]
        shown = [level for level in tables[0] if tables[0][level]["OFO"]]
        if not lines:
            heads = [f"level {level} top K | OFO" for level in shown]
            lines = [
                "| inputs | | " + " | ".join(heads) + " |",
                "|---" * (2 + 2 * len(shown)) + "|",
            ]
        for name in names:
            cells = [
                f"{mean([t[level][kind][name] for t in tables]):.2f}"
                for level in shown
                for kind in ("top K", "OFO")
            ]
            lines.append(f"| {title} | {name} | " + " | ".join(cells) + " |")
    table = "Table 2" if names[0] == "MiP" else "Table 3"
    return f"{table}, {', '.join(names)} at each level\n\n" + "\n".join(lines)


def merge_table(results: Mapping[str, Any]) -> str:
    """Table 4 and the other ways to merge: ours beside the paper's (on other data)."""
    lines = [
        "| row | MaP | MaR | MaF | MiP | MiR | MiF | paper's MaP, MaR, MaF |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted({result["row"] for result in results.values()}, key=list(ROWS).index):
        runs = [r["test"] for r in results.values() if r["row"] == row]
        cells = [spread([run[name] for run in runs]) for name in (*SETS[3:], *SETS[:3])]
        name, *quoted = TABLE_4.get(row, ("",))
        paper = f"{name}: " + ", ".join(map(str, quoted)) if quoted else ""
        lines.append(f"| {row} | " + " | ".join([*cells, paper]) + " |")
    return "Table 4, the merged sets\n\n" + "\n".join(lines)


def ranking_table(results: Mapping[str, Any]) -> str:
    lines = ["| row | " + " | ".join(RANKED) + " |", "|---" * (1 + len(RANKED)) + "|"]
    for row in sorted({result["row"] for result in results.values()}, key=list(ROWS).index):
        runs = [r["test"] for r in results.values() if r["row"] == row]
        cells = [spread([run[name] for run in runs]) for name in RANKED]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "Table 5, the ranking\n\n" + "\n".join(lines)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> str:
    """The mean, and the range of several seeds."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def draw(curves: Mapping[str, Any], path: Path) -> None:
    """Figure 5: macro precision, recall and F over the stream, a panel a level."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(curves), figsize=(3 * len(curves), 3), squeeze=False)
    for axis, (level, curve) in zip(axes[0], curves.items(), strict=True):
        for name in SETS[3:]:
            axis.plot(curve["documents"], curve[name], label=name)
        axis.set(title=f"level {level}", xlabel="documents", ylim=(0, 1))
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
