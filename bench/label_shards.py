"""Memory and processor time of a training whose processes share the labels.

    python bench/label_shards.py                                               one process
    torchrun --nproc-per-node=4 bench/label_shards.py --labels 200000          four processes

Trains `attentive` for a few steps on random documents. Prints a JSON line with, for each process:
bytes of the output layer (weights, gradients, moments, averages, best weights), resident memory
after the steps and at its peak, and processor seconds a step. `--join` makes the whole layer again,
as a training does before it saves. `--documents` shares documents instead of labels.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ontodex.models.attentive.config import AttentiveConfig
from ontodex.models.attentive.network import AttentiveNetwork
from ontodex.training.distributed import world
from ontodex.training.label_shards import LabelShards
from ontodex.training.loop import Rows, Trainer
from ontodex.types.loop_config import LoopConfig

WORDS, LENGTH, BATCH = 1_000, 16, 8


def count_bytes(trainer: Trainer) -> int:
    """Return the bytes of everything that training keeps for each row of the output layer."""
    names = AttentiveNetwork.label_parameters
    named = dict(trainer.network.named_parameters())
    numbers = [i for i, p in enumerate(trainer.parameters) if any(p is named[n] for n in names)]
    averages = trainer.averages.state_tensors()
    kept: list[Tensor] = []
    for i in numbers:
        parameter = trainer.parameters[i]
        state = trainer.optimizer.state[parameter]
        kept += [parameter, parameter, state["exp_avg"], state["exp_avg_sq"]]  # the gradient's size
        kept += [averages[f"average.{i}"], trainer.best[i]]
    return sum(tensor.numel() * tensor.element_size() for tensor in kept)


def read_resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--labels", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--documents", action="store_true")
    parser.add_argument("--join", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    n_labels = arguments.labels
    rank, n_processes = world()
    config = AttentiveConfig(width=32, hidden=32, value_dim=32, bag=64)
    network = AttentiveNetwork(config, WORDS, torch.full((n_labels,), -8.0), None)
    shards = None
    if n_processes > 1 and not arguments.documents:
        shards = LabelShards(network.label_parameters, n_labels)
        shards.cut(network)
    own = slice(0, n_labels) if shards is None else shards.columns
    documents = torch.randint(2, WORDS, (BATCH * arguments.steps, LENGTH))
    gold = torch.randint(n_labels, (len(documents), 5))

    def loss(rows: Rows) -> Tensor:
        at = torch.from_numpy(rows)
        logits = network(documents[at], torch.full((len(rows),), LENGTH))
        target = torch.zeros(len(rows), own.stop - own.start)
        inside = (gold[at] >= own.start) & (gold[at] < own.stop)
        places = inside.nonzero()[:, 0], gold[at][inside] - own.start
        target[places] = 1.0
        return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(rows)

    plan = np.arange(len(documents)).reshape(-1, BATCH)
    trainer = Trainer(
        network, lambda epoch: list(plan), loss, LoopConfig(), lambda: 0.0, shards=shards
    )
    network.train()
    began = time.process_time()
    for rows in plan:
        trainer.run_step(rows)
    seconds = (time.process_time() - began) / len(plan)
    seen = {
        "output_layer_bytes": count_bytes(trainer),
        "resident_bytes": read_resident_bytes(),
        "cpu_seconds_a_step": round(seconds, 3),
    }
    if shards is not None and arguments.join:
        del trainer
        shards.join(network)
    seen["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    every: list[object] = [seen]
    if n_processes > 1:
        every = [None] * n_processes
        torch.distributed.all_gather_object(every, seen)
    if rank == 0:
        shared = "labels" if shards is not None else "documents"
        print(json.dumps({"labels": n_labels, "shared": shared, "processes": every}))


if __name__ == "__main__":
    main()
