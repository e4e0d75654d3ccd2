"""Train one text system of bench/papers.py and keep the best labels of dev and test.

    python bench/papers_text.py eurlex57k-xmlrnn-1 prepared out [epochs.text=6 model.hidden=32 ...]

Writes out/results/<job>.npz (columns as 16 bits, probabilities as fp16) and, at the end, .json.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ontodex.config import build, merge_tables, read
from ontodex.evaluation.metrics import evaluate
from ontodex.io.device import choose_device, describe_machine
from ontodex.io.files import write_text
from ontodex.models import find_model
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.types import Corpus, LabelSpace
from papers_jobs import BY_NAME, EPOCHS, TEXT, Job

RANKS = {"dev": 20, "test": 50}
FIGURES = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")
SECONDS = 60.0  # between checkpoints, from which the same command goes on after a kill


def main() -> None:
    name, folder, out, *overrides = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    run(BY_NAME[name], Path(folder), Path(out), overrides)


def run(job: Job, folder: Path, out: Path, overrides: list[str]) -> None:
    """Train a job and write its results."""
    device = choose_device("auto")
    if str(device).startswith("cuda"):
        BiLSTM.forward = encode_by_kernel  # type: ignore[method-assign]
    carried = job.prepared(folder)
    corpora = {part: Corpus.open(carried / part) for part in ("train", "dev", "test")}
    labels = LabelSpace.of(corpora["train"])
    model, settings = make_settings(job, overrides)
    system_class = find_model(model)
    system: Any = system_class(build(system_class.Config, settings, "model"), device=device)
    system.work = job.work(out)  # of checkpoints and the log of epochs
    began = time.monotonic()
    system.fit(corpora["train"], corpora["dev"], labels)
    line: dict[str, Any] = {"job": job.name, "model": model, "settings": settings}
    line["seconds"] = round(time.monotonic() - began, 1)
    line["hardware"] = describe_machine(str(device))
    line["memory GiB"] = round(torch.cuda.max_memory_reserved() / 2**30, 1)
    line["labels"] = labels.n_seen
    line["epochs"] = read_epochs(job.work(out))
    arrays = {}
    for part, ranks in RANKS.items():
        began = time.monotonic()
        ranking = system.rank(corpora[part], ranks)
        line[f"{part} seconds"] = round(time.monotonic() - began, 1)
        metrics = evaluate(labels.gold(corpora[part]), ranking, ranking, labels, replicates=0)
        line[part] = {name: round(100 * metrics[name], 2) for name in FIGURES}
        # Columns are shifted by 1, since -1 is padding.
        arrays[f"{part}_columns"] = (ranking.columns + 1).astype(np.uint16)
        arrays[f"{part}_p"] = ranking.probabilities.astype(np.float16)
    result = job.result(out)
    result.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(result.with_suffix(".npz"), **arrays)
    write_text(result, json.dumps(line) + "\n")


def make_settings(job: Job, overrides: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the system of a job and its settings."""
    model, settings = TEXT[job.row]
    given = read(None, overrides)
    epochs = given.get("epochs", {}).get("text", EPOCHS[job.corpus]) // (
        3 if model == "lightattention" else 1
    )
    loop = {"seed": job.seed, "epochs": epochs, "checkpoint_seconds": SECONDS}
    settings = merge_tables(settings, {"train": loop})
    return model, merge_tables(settings, given.get("model", {}))


def read_epochs(work: Path) -> list[Any]:
    """Return the lines of the log of a training, of all its levels."""
    logs = sorted(work.glob("**/log.jsonl"))
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def encode_by_kernel(self: BiLSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """Run the BiLSTM in our kernel: its few programs leave the GPU to other trainings, where
    cuDNN's take all of it."""
    from ontodex.models.kernels.lstm import encode_together  # imports Triton

    with torch.autocast("cuda", dtype=torch.float16):
        return encode_together([self], x.transpose(0, 1)[:, :, None], lengths)[0].contiguous()


if __name__ == "__main__":
    main()
