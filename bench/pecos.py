"""PECOS XR-Linear on the same features as ours, in an environment of its own.

    python bench/pecos.py eurlex57k            needs $ONTODEX_DATA (else ../shared/data) and pip

Makes a virtual environment in a temporary folder, installs libpecos there, and prints a Markdown
table: PECOS with one and three trees beside `parabel`, each trained and asked on the same TF-IDF.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, csr_matrix, save_npz

from ontodex.corpora.open import open_corpus
from ontodex.evaluation.ranking import ndcg, precision, score_documents
from ontodex.models.baselines.sparse_rows import select_seen_labels, to_csr
from ontodex.models.trees.parabel import ParabelConfig, ParabelSystem
from ontodex.types import LabelSpace, Ranking

INSTALL = ("libpecos==1.2.8", "torch==2.13.0")
WORKER = """
import json, sys, time
import numpy as np
from scipy.sparse import load_npz, save_npz
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel

folder, trees = sys.argv[1], int(sys.argv[2])
X, Y, Xt = (load_npz(f"{folder}/{name}.npz") for name in ("train", "gold", "test"))
began = time.monotonic()
features = LabelEmbeddingFactory.create(Y, X, method="pifa")
models = [
    XLinearModel.train(X, Y, C=Indexer.gen(features, seed=seed)) for seed in range(trees)
]
trained = time.monotonic() - began
began = time.monotonic()
scores = sum(model.predict(Xt, beam_size=10, only_topk=50) for model in models) / trees
ranked = time.monotonic() - began
save_npz(f"{folder}/scores.npz", scores.tocsr())
print(json.dumps({"train": trained, "rank": ranked}))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["eurlex57k"])
    parser.parse_args()
    data = Path(os.environ.get("ONTODEX_DATA", "../shared/data")) / "eurlex57k"
    train, dev, test = (open_corpus(data / f"{p}.jsonl.xz") for p in ("train", "dev", "test"))
    labels = LabelSpace.of(train)
    gold = labels.gold(test)
    sys.stdout.write("| system | P@1 | P@3 | P@5 | nDCG@5 | train s | rank s | docs/s |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|---|\n")
    ours = ParabelSystem(ParabelConfig())
    began = time.monotonic()
    ours.fit(train, dev, labels)
    fitted = time.monotonic()
    ranking = ours.rank(test, 50)
    show("parabel", gold, ranking, fitted - began, time.monotonic() - fitted)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = environment(folder)
        matrices = {
            "train": to_csr(ours.features.transform(train)),
            "gold": select_seen_labels(train, labels).astype(np.float32),
            "test": to_csr(ours.features.transform(test)),
        }
        for part, matrix in matrices.items():
            save_npz(folder / f"{part}.npz", csr_matrix(matrix))
        for trees in (1, 3):
            command = [str(python), "-c", WORKER, name, str(trees)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            times = json.loads(done.stdout.splitlines()[-1])
            show(f"PECOS, {trees} trees", gold, scores(folder), times["train"], times["rank"])


def environment(folder: Path) -> Path:
    """The python of a new environment that has PECOS."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *INSTALL], check=True)
    return python


def scores(folder: Path) -> Ranking:
    with np.load(folder / "scores.npz") as file:
        parts = (file["data"], file["indices"], file["indptr"])
        return Ranking.of_sparse(csr_array(parts, shape=tuple(file["shape"])), 50)


def show(name: str, gold: csr_array, ranking: Ranking, train: float, rank: float) -> None:
    figures = [float(score_documents(precision, k, gold, ranking).mean()) for k in (1, 3, 5)]
    figures.append(float(score_documents(ndcg, 5, gold, ranking).mean()))
    cells = [f"{100 * value:.2f}" for value in figures]
    cells += [f"{train:.1f}", f"{rank:.2f}", f"{len(ranking) / rank:,.0f}"]
    sys.stdout.write(f"| {name} | " + " | ".join(cells) + " |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
