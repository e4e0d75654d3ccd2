"""What one document costs on one CPU core: all levels, both passes, OFO and the pointer generator.

    python bench/levelwise_latency.py carried/eurlex eurlex57k/test.jsonl.xz --row full \
        --ontology eurlex57k/eurovoc.json --set model.max_level=4

The networks have the sizes of a trained run and random weights, on which time does not depend; the
pointer generator is made to emit eight labels of 16 that it reads. Documents are read from their
text. Prints the median and the 90th percentile of wall time, and the processor's own time, in
milliseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from levelwise import ROWS, begin, settings
from ontodex.decide.calibrate import Calibration
from ontodex.decide.ofo import OFO
from ontodex.models.level_decide import Sampling
from ontodex.models.level_passes import Pass
from ontodex.models.levelwise import Levelwise
from ontodex.models.pointer import Pointer
from ontodex.models.pointer_network import PointerNetwork
from ontodex.ontology import read_ontology
from ontodex.read import open_corpus
from ontodex.types import Corpus, LabelSpace

CANDIDATES = 16  # labels of a document that are merged, of all levels and in the mean
EMITTED = 8  # of these


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
    system = begin(settings(arguments.row, 1, arguments.common, over))
    docs = open_corpus(arguments.texts)
    texts = [docs[i] for i in range(arguments.documents)]
    untrained(system, corpora, labels, Corpus.of(texts))
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


def untrained(
    system: Levelwise, corpora: dict[str, Corpus], labels: LabelSpace, texts: Corpus
) -> None:
    """Give the system networks of the right sizes, as if it had been fitted, and thresholds that
    leave so many candidates of these texts."""
    stage = system.stage(corpora["train"], corpora["dev"], labels)
    assert system.merging is not None
    torch.manual_seed(1)
    n = stage.gold.shape[1]
    for n_labels in (0, n) if system.config.reads_levels and len(system.levels) > 1 else (0,):
        network = system._network(n_labels).half().float().eval()  # as it is saved
        moves = np.zeros(len(system.levels))
        system.passes.append(Pass(network, OFO.new(n, 0.0), np.zeros(n), moves))
    merging, settings = system.merging, system.config.pointer
    merging.level_calibration = [Calibration.none() for _ in system.levels]
    merging.sampling = Sampling(np.zeros(1), np.full(1, float(EMITTED)))
    if system.config.merge == "pointer":
        merging.pointer = Pointer(settings, merging.hierarchy)
        merging.pointer.network = PointerNetwork(settings, merging.hierarchy).eval()
        with torch.no_grad():
            merging.pointer.network.vocabulary.bias[-1] = -1e4  # never stops by itself
    for place, one in enumerate(system.passes):  # the second reads what the first leaves
        said = np.hstack([ranking.probabilities for ranking in system.level_rankings(texts)[place]])
        one.thresholds[:] = np.sort(said, axis=None)[-CANDIDATES * len(texts) - 1]
    if system.config.merge == "pointer":
        system.thresholds[:] /= settings.share


if __name__ == "__main__":
    main()
