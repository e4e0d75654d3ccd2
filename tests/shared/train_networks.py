"""Train neural systems with small settings and without dropout, as one process or under torchrun.

    python train_networks.py OUT ENCODER NAME... [--shard-labels] [--checkpoints]
                                                 [--end SIGNAL RANK]

Each system leaves a run folder OUT/NAME. `--checkpoints` writes one after every step, `--end` sends
a process a signal after its tenth step. Dropout draws other numbers for other shares of a batch, so
it is off: what remains must not depend on the number of processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import signal
import sys
import tomllib
from pathlib import Path
from typing import Any

import torch

import ontodex
from ontodex.corpora.sample import generate_documents, get_ontology_path, split_records
from ontodex.models import find_model
from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.layers.bag import WordBag
from ontodex.training.distributed import world
from ontodex.training.loop import Trainer
from ontodex.types import Corpus, Doc

SMALL = tomllib.loads((Path(__file__).parents[1] / "small_settings.toml").read_text())
DROPOUTS = ("dropout", "word_dropout", "bag_dropout", "input_dropout")
LAST_STEP = 10  # of a process that a signal ends; a training has 18


def make_corpora() -> list[Corpus]:
    """Return train and dev: documents of the sample."""
    parts = split_records(list(generate_documents(120, seed=1)))
    return [Corpus.of([make_doc(record) for record in part]) for part in parts[:2]]


def make_doc(record: dict[str, Any]) -> Doc:
    fields = {"title": record["title"], "abstract": record["abstract"]}
    return Doc(record["id"], fields, (), tuple(record["labels"]))


def choose_settings(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return small settings of a system: few epochs, no dropout."""
    names = {field.name for field in dataclasses.fields(find_model(name).Config)}
    settings = {**SMALL[name], **{key: 0.0 for key in DROPOUTS if key in names}}
    settings["train"] = {**settings["train"], "epochs": 3}
    if arguments.checkpoints:
        settings["train"]["checkpoint_seconds"] = 0
    if name == "attentive-bert":
        settings["encoder"] = arguments.encoder
    if arguments.shard_labels:
        settings["shard_labels"] = True
    return settings


def end_after_steps(what: signal.Signals, rank: int) -> None:
    """Let the process of a rank get a signal after its last step."""
    save_if_due = Trainer.save_if_due

    def end(trainer: Trainer) -> None:
        if (trainer.state.step, world()[0]) == (LAST_STEP, rank):
            os.kill(os.getpid(), what)
        save_if_due(trainer)

    Trainer.save_if_due = end  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("encoder")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--shard-labels", action="store_true")
    parser.add_argument("--checkpoints", action="store_true")
    parser.add_argument("--end", nargs=2, metavar=("SIGNAL", "RANK"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.ERROR)
    WordBag.WORD_DROPOUT = 0.0
    AttentiveTreeConfig.word_dropout = 0.0
    if arguments.end:
        end_after_steps(signal.Signals[arguments.end[0]], int(arguments.end[1]))
    train, dev = make_corpora()
    for name in arguments.names:
        ontodex.train(
            name,
            train=train,
            dev=dev,
            ontology=get_ontology_path(),
            out=arguments.out / name,
            device="cpu",
            config={"model": choose_settings(name, arguments)},
        )


if __name__ == "__main__":
    sys.exit(main())
