"""Time and memory of every command that takes a corpus or an ontology of any size, at two sizes.

    python bench/limit_commands.py

The figures are those of docs/guide/deploy.md. Documents have 100 words of a vocabulary of 20,000
and three of 1,000 labels. The time is processor time; the memory is the largest resident size of
any process of the command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ontodex.corpora.open import read_docs
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import NewDecision

N_LABELS, N_WORDS = 1_000, 20_000


def write_corpus(path: Path, n_docs: int, seed: int) -> None:
    """Write documents whose words are drawn by Zipf's law, and by label."""
    random = np.random.default_rng(seed)
    with path.open("w") as file:
        for number in range(n_docs):
            labels = random.integers(0, N_LABELS, 3)
            words = random.zipf(1.3, 100) % N_WORDS
            words[:9] = N_WORDS + np.repeat(labels, 3)
            text = " ".join(f"word{word}" for word in words)
            fields = {"id": str(number), "text": text, "labels": [f"c{label}" for label in labels]}
            file.write(json.dumps(fields) + "\n")


def write_concepts(path: Path, n_concepts: int) -> None:
    """Write an ontology in which each concept has ten children."""
    with path.open("w") as file:
        file.write('{"ontodex": "ontology", "version": 1, "concepts": [\n')
        for number in range(n_concepts):
            parents = [f"c{(number - 1) // 10}"] if number else []
            fields = {"id": f"c{number}", "names": {"en": f"name {number}"}, "parents": parents}
            file.write(json.dumps(fields) + (",\n" if number + 1 < n_concepts else "\n"))
        file.write("]}\n")


def measure(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Return the processor seconds and the MiB of a command."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ontodex", *command], cwd=folder, stdout=log, stderr=log
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: {(folder / 'log').read_text()[-500:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def list_commands(model: str) -> list[str]:
    return [
        "convert docs.jsonl docs.parquet",
        "check docs.jsonl",
        "prepare docs.jsonl --out prepared",
        f"train --model {model} --train docs.jsonl --dev dev.jsonl "
        "--ontology concepts.json --out run",
        "evaluate run dev.jsonl",
        "index run docs.jsonl out.csv",
        "update run dev.jsonl",
        "learn run --database decisions.sqlite",
        "learn run --database decisions.sqlite --retrain",
        "migrate run concepts.json --out newer",
        "tune run --train docs.jsonl --budget 10s --out tuned",
        "auto --train docs.jsonl --dev dev.jsonl --system knn --budget 20s --out best",
        "train --model linear --train docs.jsonl --dev dev.jsonl --out linear",
        "export linear exported",
        "push run ./pushed",
        "ontology show concepts.json c1",
        "ontology diff concepts.json concepts.json",
    ]


def write_decisions(folder: Path) -> None:
    """Store the dev documents as a curator has decided them: each label accepted, all done."""
    docs = list(read_docs(folder / "dev.jsonl"))
    database = Database.open(str(folder / "decisions.sqlite"))
    numbers = database.add_documents(docs, batch="dev", user="curator")
    for number, doc in zip(numbers, docs, strict=True):
        decided = [NewDecision(number, label, "accept") for label in doc.labels]
        database.write_decisions(decided, user="curator")
        database.set_state(number, "done", user="curator")
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[2_000, 10_000])
    parser.add_argument("--concepts", type=int, default=100)
    parser.add_argument("--model", default="knn")
    arguments = parser.parse_args()
    costs: dict[str, list[str]] = {}
    for n_docs in arguments.documents:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_corpus(folder / "docs.jsonl", n_docs, 1)
            write_corpus(folder / "dev.jsonl", n_docs // 10, 2)
            write_concepts(
                folder / "concepts.json", max(N_LABELS, arguments.concepts * n_docs // 10)
            )
            write_decisions(folder)
            for command in list_commands(arguments.model):
                seconds, mib = measure(command.split(), folder)
                costs.setdefault(command, []).append(f"{seconds:.1f} s, {mib:,.0f} MiB")
                print(f"{n_docs:,}", command, costs[command][-1], file=sys.stderr, flush=True)
    sizes = " | ".join(f"{n_docs:,} documents" for n_docs in arguments.documents)
    print(f"| Command | {sizes} |\n|---|{'---|' * len(arguments.documents)}")
    for command, cells in costs.items():
        print(f"| `{command}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
