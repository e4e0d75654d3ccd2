"""Try settings of a system on a fifth of the training documents, which is set aside by hash.

    python bench/tune.py delicious_train.txt.gz --model autoencoder --seeds 1 2 \
        --try "" --try "dropout=0.4 train.epochs=40" --try "direct_weight=0"

Each --try holds settings of [model], separated by spaces; --ontology FILE is for those that read
one (`graph=ontology`). Prints a JSON line for each: mean and
spread over seeds on dev, epochs and seconds. A prepared folder does as well as a file; with
--dev FILE nothing is set aside. --missing R or --invalid R put noise into the labels of train, not
of dev (as Rank-AE chose its margin). Test documents never come here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from ontodex.config import build, read
from ontodex.corpora.noise import corrupt_corpus
from ontodex.corpora.open import open_corpus
from ontodex.evaluation.ranking import ndcg, precision, score_documents
from ontodex.io.device import choose_device
from ontodex.models import find_model
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, LabelSpace


def open_either(path: Path) -> Corpus:
    return Corpus.open(path) if (path / "corpus.json").exists() else open_corpus(path)


def a_fifth_aside(corpus: Corpus) -> tuple[Corpus, Corpus]:
    """(train, dev); another part than a tenth set aside by `ontodex train` would be."""
    chosen = [hashlib.sha256(f"dev{id_}".encode()).digest()[-1] % 5 == 0 for id_ in corpus.ids]
    aside = np.array(chosen, dtype=bool)
    return corpus.select(~aside), corpus.select(aside)


def _mean_and_spread(values: list[float]) -> list[float]:
    """The mean and, of several seeds, the standard deviation."""
    spread = [statistics.stdev(values)] if len(values) > 1 else []
    return [round(value, 2) for value in (statistics.fmean(values), *spread)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("train", type=Path)
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--ontology", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--try", dest="tries", action="append", default=[])
    for noise in ("missing", "invalid"):
        parser.add_argument(f"--{noise}", type=float, default=0.0)
    arguments = parser.parse_args()
    train = open_either(arguments.train)
    train, dev = (train, open_either(arguments.dev)) if arguments.dev else a_fifth_aside(train)
    if arguments.missing:
        train = corrupt_corpus(train, "missing", arguments.missing)
    if arguments.invalid:
        train = corrupt_corpus(train, "invalid", arguments.invalid)
    ontology = read_ontology(arguments.ontology) if arguments.ontology else None
    labels = LabelSpace.of(train, ontology)
    gold = labels.gold(dev)
    model_class, device = find_model(arguments.model), choose_device("auto")
    for line in arguments.tries or [""]:
        found: list[dict[str, float]] = []
        for seed in arguments.seeds:
            settings = [f"model.{word}" for word in (*line.split(), f"train.seed={seed}")]
            system = model_class(
                build(model_class.Config, read(None, settings)["model"], "model"), device=device
            )
            began = time.monotonic()
            system.fit(train, dev, labels)
            seconds = time.monotonic() - began
            ranking = system.rank(dev, 5)
            figures = {f"P@{k}": score_documents(precision, k, gold, ranking) for k in (1, 3, 5)}
            figures["nDCG@5"] = score_documents(ndcg, 5, gold, ranking)
            means = {name: 100 * float(np.nanmean(values)) for name, values in figures.items()}
            epochs = getattr(getattr(system, "chosen", system), "epochs", 0)
            found.append({**means, "epochs": epochs, "seconds": seconds})
        averages = {name: _mean_and_spread([one[name] for one in found]) for name in found[0]}
        sys.stdout.write(json.dumps({"settings": line, **averages}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
