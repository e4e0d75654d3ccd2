"""Single-document latency on one CPU core: all levels, both passes, OFO and pointer generator.

    python bench/levelwise_latency.py carried/eurlex eurlex57k/test.jsonl.xz --row full \
        --ontology eurlex57k/eurovoc.json --set model.max_level=4

The networks have the sizes of a trained run and random weights, which do not change the time. The
pointer generator reads 16 labels and emits eight. Documents are read from their text. Prints the
median and the 90th percentile of wall time, and the processor time, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from levelwise import ROWS, make_system, settings
from ontodex.corpora.open import open_corpus
from ontodex.decide.calibrate import Calibration
from ontodex.decide.ofo import OFO
from ontodex.models.levelwise.pointer import Pointer
from ontodex.models.levelwise.pointer_network import PointerNetwork
from ontodex.models.levelwise.prediction import Pass
from ontodex.models.levelwise.system import Levelwise
from ontodex.models.levelwise.thresholds import Sampling
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, LabelSpace

CANDIDATES = 16  # mean number of labels per document, over all levels, that are merged
EMITTED = 8  # labels that the pointer generator emits


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--ontology", type=Path, required=True)
    parser.add_argument("--row", default="full", choices=list(ROWS))
    parser.add_argument("--set", dest="common", action="append", default=[])
    parser.add_argument("--documents", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    corpora = {part: Corpus.open(arguments.folder / part) for part in ("train", "dev")}
    labels = LabelSpace.of(corpora["train"], read_ontology(arguments.ontology))
    over = [f"model.pointer.max_labels={EMITTED}"]
    system = make_system(arguments.row, settings(arguments.row, 1, arguments.common, over))
    docs = open_corpus(arguments.texts)
    texts = [docs[i] for i in range(arguments.documents)]
    fill_untrained(system, corpora, labels, Corpus.of(texts))
    system.decide(Corpus.of(texts[:1]))
    wall, own = [], []
    for doc in texts:
        began = time.perf_counter(), time.process_time()
        system.decide(Corpus.of([doc]))
        wall.append(time.perf_counter() - began[0])
        own.append(time.process_time() - began[1])
    found = {
        "row": arguments.row,
        "documents": len(texts),
        "median ms": round(1000 * float(np.median(wall))),
        "90 % under ms": round(1000 * float(np.quantile(wall, 0.9))),
        "median of processor ms": round(1000 * float(np.median(own))),
    }
    sys.stdout.write(json.dumps(found) + "\n")


def fill_untrained(
    system: Levelwise, corpora: dict[str, Corpus], labels: LabelSpace, texts: Corpus
) -> None:
    """Fill the system with untrained networks of the right sizes, as if it had been fitted.

    Its thresholds leave `CANDIDATES` labels of these texts.
    """
    stage = system.prepare_data(corpora["train"], corpora["dev"], labels)
    assert system.merging is not None
    torch.manual_seed(1)
    n = stage.gold.shape[1]
    for n_labels in (0, n) if system.config.reads_levels and len(system.levels) > 1 else (0,):
        network = system.make_network(n_labels).half().float().eval()  # as it is saved
        shifts = np.zeros(len(system.levels))
        system.passes.append(Pass(network, OFO.start(n, 0.0), np.zeros(n), shifts))
    merging, settings = system.merging, system.config.pointer
    merging.level_calibration = [Calibration.identity() for _ in system.levels]
    merging.sampling = Sampling(np.zeros(1), np.full(1, float(EMITTED)))
    if system.merging.rule in ("auto", "pointer"):
        merging.pointer = Pointer(settings, merging.hierarchy)
        merging.pointer.network = PointerNetwork(settings, merging.hierarchy).eval()
        with torch.no_grad():
            merging.pointer.network.vocabulary.bias[-1] = -1e4  # so that it never stops early
    for place, one in enumerate(system.passes):  # pass 2 reads the predictions of pass 1
        predicted = np.hstack(
            [ranking.probabilities for ranking in system.predict_levels(texts)[place]]
        )
        one.thresholds[:] = np.sort(predicted, axis=None)[-CANDIDATES * len(texts) - 1]
    if system.merging.rule in ("auto", "pointer"):
        system.thresholds[:] /= settings.candidate_threshold_ratio


if __name__ == "__main__":
    main()
