"""The only training loop. It knows no model by name.

    for each epoch: for each batch: loss - backward - (all-reduce) - clip - step - average
    after each epoch: dev score - keep the best weights - stop early

A system brings its network, `batches(epoch)` (rows of training documents in a fixed order) and
`loss(rows)`. Started by torchrun, each process takes its share of every batch and gradients are
summed, so the result is that of one process. With `shards` each process takes its share of the
labels instead (label_shards.py). A checkpoint holds everything that shapes the rest of the training
(weights, optimizer, averages, random state, position in the epoch), in one form for any number of
processes: a resumed training gives the same weights. No step waits for the GPU.
"""

from __future__ import annotations

import json
import logging
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.errors import RunError
from ontodex.io.device import release_freed_memory
from ontodex.io.old_names import LOOP_NAMES
from ontodex.training import checkpoints
from ontodex.training.averages import WeightAverages, copy_tensors
from ontodex.training.distributed import (
    any_process,
    sum_over_processes,
    take_from_rank_zero,
    world,
)
from ontodex.training.half_rows import is_half_table
from ontodex.training.label_shards import LabelShards
from ontodex.training.log import TrainingLog
from ontodex.training.optimisers import RowAdamW, build_optimizer, group_by_rate
from ontodex.training.schedule import learning_rate
from ontodex.training.sparse_gradients import (
    all_reduce_gradients,
    clip_grad_norm,
    coalesce_gradients,
    find_sparse_tables,
    unscale_gradients,
)
from ontodex.types.loop_config import LoopConfig

logger = logging.getLogger(__name__)

Rows = NDArray[np.int64]
MOST_SKIPPED_STEPS = 25  # more steps without a finite gradient end the training


@dataclass
class TrainingState:
    """The position of a training and its best result, besides the tensors."""

    epoch: int = 0
    position: int = 0  # finished batches of this epoch
    step: int = 0  # finished optimizer steps
    micro: int = 0  # documents whose gradients are computed at once
    skipped: int = 0  # steps that were skipped because a gradient was not finite
    best: float = -math.inf
    best_epoch: int = -1
    finished: bool = False


def fit(
    network: nn.Module,
    *,
    batches: Callable[[int], Sequence[Rows]],
    loss: Callable[[Rows], Tensor],
    config: LoopConfig,
    score: Callable[[], float] | None = None,
    folder: Path | None = None,
    after_step: Callable[[], None] | None = None,
    stop: int | None = None,
    title: str = "training",
    epoch_metrics: Callable[[], Mapping[str, float]] | None = None,
    rates: Mapping[str, float] = MappingProxyType({}),
    shards: LabelShards | None = None,
) -> TrainingState:
    """Train `network` in place; it ends with the weights of the best dev score.

    `loss(rows)` returns the mean loss of these documents. `score()` returns the dev score after
    every epoch (higher is better), computed with averaged weights. `folder` keeps checkpoints and
    the log; `title` stands on the progress bar. `stop` ends the training after so many epochs of a
    schedule made for `config.epochs`. `epoch_metrics()` adds its values to the log of an epoch.
    `rates` are factors of the learning rate for parameters whose names begin with their keys.
    `shards` tells which parameters hold the rows of this process's labels; `loss` is then theirs.
    """
    release_freed_memory()
    trainer = Trainer(network, batches, loss, config, score, folder, title, rates, shards)
    trainer.after_step, trainer.epoch_metrics = after_step, epoch_metrics
    trainer.last_epoch = min(config.epochs, stop or config.epochs)
    with _stop_at_sigterm(trainer):
        trainer.run()
    return trainer.state


class Trainer:
    """The tensors and counters of one training."""

    def __init__(
        self,
        network: nn.Module,
        batches: Callable[[int], Sequence[Rows]],
        loss: Callable[[Rows], Tensor],
        config: LoopConfig,
        score: Callable[[], float] | None = None,
        folder: Path | None = None,
        title: str = "training",
        rates: Mapping[str, float] = MappingProxyType({}),
        shards: LabelShards | None = None,
    ) -> None:
        self.network, self.batches, self.loss, self.config = (
            network,
            batches,
            loss,
            config.to_loop(),
        )
        self.score, self.folder, self.title, self.shards = score, folder, title, shards
        self.after_step: Callable[[], None] | None = None
        self.epoch_metrics: Callable[[], Mapping[str, float]] | None = None
        self.last_epoch = config.epochs
        named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
        self.parameters: list[Tensor] = [p for _, p in named]
        self.device = self.parameters[0].device
        self.rank, self.n_processes = world()
        self.sharded = [p for p in self.parameters if shards is not None and shards.owns(p)]
        by_label = {id(p) for p in self.sharded}
        self.shared = [p for p in self.parameters if id(p) not in by_label]
        # Batch norm needs the whole batch: every process computes all of it, and nothing is gained.
        self.shares_documents = shards is None and not has_batch_norm(network)
        share_initial_weights(self.shared)
        on_gpu = self.device.type == "cuda"
        self.optimizer = build_optimizer(group_by_rate(named, rates), config, fused=on_gpu)
        # The recurrent encoder runs in fp16 on a GPU, where small gradients would vanish unscaled.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=on_gpu, init_scale=2.0**12)
        self.tables = {id(table) for table in find_sparse_tables(network)}
        averaged = [p for p in self.parameters if not is_half_table(p)]
        self.averages = WeightAverages(averaged, self.tables, config.ema_rate)
        # On the CPU: it is copied at most once an epoch, and GPU memory is scarce.
        self.best = [p.detach().to("cpu", copy=True) for p in self.parameters] if score else []
        self.state = TrainingState(micro=config.batch_size)
        self.total_steps = config.epochs * max(1, len(batches(0)))
        self.is_stop_requested = False
        self.saved_at = time.monotonic()
        torch.manual_seed(config.seed)
        if folder is not None and checkpoints.has_checkpoint(folder):
            self.restore(folder)

    def run(self) -> None:
        """Train until the last epoch or until the dev score stops improving."""
        done = self.state.epoch * len(self.batches(0)) + self.state.position
        folder = self.folder if self.rank == 0 else None
        log = TrainingLog(folder, self.total_steps, done, self.title, epoch=self.state.epoch)
        with log:
            while not self.state.finished:
                self.run_epoch(log)
        if self.score is not None:
            copy_tensors(self.best, self.parameters)
        elif self.averages:
            self.averages.copy_to_parameters(self.state.step)
        if self.n_processes > 1 and self.shares_documents:  # they drew numbers of their own
            torch.manual_seed(self.config.seed)
        self.refuse_huge_weights()

    def run_epoch(self, log: TrainingLog) -> None:
        """Train on the remaining batches of the epoch, then compute the dev score."""
        self.network.train()
        plan = self.batches(self.state.epoch)
        losses: list[Tensor] = []
        while self.state.position < len(plan):
            rows = plan[self.state.position]
            losses.append(self.run_step(rows))
            self.state.position += 1
            log.log_step(len(rows), losses)
            self.save_if_due()
        self.count_skipped_steps(losses)
        result = self.evaluate()
        metrics = self.epoch_metrics() if self.epoch_metrics is not None else {}
        log.log_epoch(self.state.epoch, losses, result, self.state.skipped, metrics)
        self.state.epoch, self.state.position = self.state.epoch + 1, 0
        waited = self.state.epoch - 1 - self.state.best_epoch
        stops_early = 0 < self.config.patience <= waited and self.score is not None
        self.state.finished = stops_early or self.state.epoch >= self.last_epoch
        if self.state.finished:
            self.save()
        else:  # not after every epoch: writing a large network can take longer than an epoch
            self.save_if_due()

    def run_step(self, rows: Rows) -> Tensor:
        """Make one optimizer step on a batch; return its loss."""
        value = self.compute_gradients_in_memory(rows)
        rate = learning_rate(self.state.step, self.total_steps, self.config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        if isinstance(self.optimizer, RowAdamW):
            self.optimizer.rounding_seed = hash((self.config.seed, self.state.step))
        unscale_gradients(self.scaler, self.optimizer, self.parameters)
        max_norm = self.config.max_grad_norm or math.inf
        norm = clip_grad_norm(self.shared, max_norm, self.sharded)
        self.averages.update_rows_before_step(self.state.step)
        if self.device.type == "cuda":
            self.scaler.step(self.optimizer)  # skips the step, on the GPU, if not finite
            self.scaler.update()
        elif bool(torch.isfinite(norm)):
            self.optimizer.step()
        else:
            self.state.skipped += 1
            logger.warning("step %s skipped: its gradient is not finite", self.state.step)
            self.refuse_many_skipped_steps()
        self.optimizer.zero_grad(set_to_none=True)
        if self.after_step is not None:
            self.after_step()
        self.averages.update_after_step(self.state.step)
        self.state.step += 1
        return value

    def compute_gradients_in_memory(self, rows: Rows) -> Tensor:
        """Compute the gradients of a batch; halve the micro-batch when GPU memory runs out."""
        while True:
            try:
                return self.compute_gradients(rows)
            except torch.cuda.OutOfMemoryError:
                self.optimizer.zero_grad(set_to_none=True)
                if self.state.micro <= 1:
                    raise RunError(
                        "one document does not fit into GPU memory",
                        hint="lower --set model.max_length or the model's width",
                    ) from None
                self.state.micro //= 2
                torch.cuda.empty_cache()
                logger.warning("out of GPU memory: now %s documents at once", self.state.micro)

    def compute_gradients(self, rows: Rows) -> Tensor:
        """Backpropagate this process's share in micro-batches; return the loss of the batch."""
        own, factor = rows, 1.0
        if self.n_processes > 1 and self.shares_documents:
            own = rows[self.rank :: self.n_processes]
            # With equal numbers, documents of different processes would lose the same units.
            torch.manual_seed(hash((self.config.seed, self.state.step, self.rank)))
        elif self.shards is None:
            factor = 1 / self.n_processes
        total = torch.zeros((), device=self.device)
        for start in range(0, len(own), self.state.micro):
            micro_batch = own[start : start + self.state.micro]
            value = self.loss(micro_batch) * (factor * len(micro_batch) / len(rows))
            self.scaler.scale(value).backward()
            total += value.detach()
        coalesce_gradients(self.parameters)
        if self.n_processes > 1:
            all_reduce_gradients(self.shared, self.tables, self.sharded)
            total = sum_over_processes(total)
        return total

    def count_skipped_steps(self, losses: list[Tensor]) -> None:
        """Count the steps that the loss scaler skipped by itself on a GPU."""
        if self.device.type != "cuda" or not losses:
            return
        skipped = int((~torch.isfinite(torch.stack(losses))).sum())
        if skipped:
            self.state.skipped += skipped
            logger.warning(
                "epoch %s: %s steps skipped: their loss is not finite", self.state.epoch, skipped
            )
            self.refuse_many_skipped_steps()

    def refuse_many_skipped_steps(self) -> None:
        """End a training whose gradients are seldom finite."""
        if self.state.skipped >= MOST_SKIPPED_STEPS:
            raise RunError(
                f"{self.state.skipped} steps had a loss or gradient that is not finite",
                hint="lower the learning rate: --set model.train.lr=5e-4",
            )

    def refuse_huge_weights(self) -> None:
        """End a training that diverged: systems save fp16 weights, which would be infinite."""
        # Without a copy: that of a table of millions of labels would be the peak of memory.
        ends = [torch.aminmax(p.detach()) for p in self.parameters if p.numel()]
        largest = max(max(-float(low), float(high)) for low, high in ends)
        (is_huge,) = any_process(not largest <= torch.finfo(torch.float16).max)
        if is_huge:
            raise RunError(
                f"the training diverged: its largest weight is {largest:.3g}",
                hint="lower the learning rate: --set model.train.lr=5e-4, with another --out",
            )

    def evaluate(self) -> float | None:
        """Return the dev score of the averaged weights; keep the best weights so far."""
        if self.score is None:
            return None
        self.network.eval()
        with self.averages.swap_in(self.state.step):
            result = take_from_rank_zero(self.score())
            if result > self.state.best:
                self.state.best, self.state.best_epoch = result, self.state.epoch
                copy_tensors(self.parameters, self.best)
        return result

    def save_if_due(self) -> None:
        """Write a checkpoint when it is time or a process is asked to stop; then all stop."""
        is_due = time.monotonic() - self.saved_at > self.config.checkpoint_seconds
        is_due, is_stopping = any_process(is_due, self.is_stop_requested)
        if is_due or is_stopping:
            self.save()
        if is_stopping:
            raise SystemExit(128 + signal.SIGTERM)

    def save(self) -> None:
        """Write a checkpoint, if there is a folder for it."""
        self.saved_at = time.monotonic()
        if self.folder is None or (self.rank != 0 and self.shards is None):
            return
        tensors = {f"weight.{i}": p.detach() for i, p in enumerate(self.parameters)}
        tensors |= {f"buffer.{name}": b for name, b in self.network.named_buffers()}
        tensors |= self.averages.state_tensors()
        tensors |= {f"best.{i}": b for i, b in enumerate(self.best)}
        for i, parameter in enumerate(self.parameters):
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{i}.{key}"] = value
        if self.shards is not None:
            tensors = {
                name: self.shards.gather(tensor) if self.is_by_label(name, tensor) else tensor
                for name, tensor in tensors.items()
            }
            if self.rank != 0:
                return
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        about = {
            "state": vars(self.state),
            "scaler": self.scaler.state_dict(),
            "config": _settings_of_weights(vars(self.config)),
        }
        checkpoints.write_checkpoint(self.folder, tensors, about)

    def is_by_label(self, name: str, tensor: Tensor) -> bool:
        """Tell whether a tensor of a checkpoint has one row for each label of a sharded layer."""
        number = name.split(".")[1]  # of the parameter
        is_sharded = number.isdigit() and any(
            self.parameters[int(number)] is parameter for parameter in self.sharded
        )
        return is_sharded and tensor.dim() > 0

    def restore(self, folder: Path) -> None:
        """Continue from the checkpoint of a folder."""
        tensors, about = checkpoints.read_checkpoint(folder)
        if self.shards is not None:
            tensors = {
                name: tensor[self.shards.columns] if self.is_by_label(name, tensor) else tensor
                for name, tensor in tensors.items()
            }
        settings = json.loads(json.dumps(_settings_of_weights(vars(self.config))))
        if _settings_of_weights(about["config"]) != settings:
            raise RunError(
                f"{folder}: its checkpoint was made with other settings",
                hint="train with the settings of the checkpoint, or into another --out",
            )
        weights = [tensors[f"weight.{i}"] for i in range(len(self.parameters))]
        copy_tensors(weights, self.parameters)
        for name, buffer in self.network.named_buffers():
            buffer.copy_(tensors[f"buffer.{name}"])
        self.averages.restore(tensors)
        copy_tensors([tensors[f"best.{i}"] for i in range(len(self.best))], self.best)
        for i, parameter in enumerate(self.parameters):
            self.optimizer.state[parameter] = self.optimizer_state(tensors, f"optimizer.{i}.")
        torch.set_rng_state(tensors["random.cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        self.scaler.load_state_dict(about["scaler"])
        self.state = TrainingState(**about["state"])

    def optimizer_state(self, tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
        """Return the optimizer's tensors of one parameter from a checkpoint."""
        found = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        # Adam keeps its step counter on the CPU unless it is fused.
        return {
            k: v.clone() if k == "step" and self.device.type == "cpu" else v.to(self.device)
            for k, v in found.items()
        }


def has_batch_norm(network: nn.Module) -> bool:
    """Tell whether a network computes with the mean and variance of a batch."""
    norms = (m for m in network.modules() if isinstance(m, nn.BatchNorm1d))
    return any(norm.num_features for norm in norms)


@torch.no_grad()
def share_initial_weights(parameters: Sequence[Tensor]) -> None:
    """Start from the weights of the first process in all: processors round differently."""
    if world()[1] > 1:
        sent = [torch.distributed.broadcast(p, src=0, async_op=True) for p in parameters]
        for one in sent:
            one.wait()


def _settings_of_weights(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that shape the weights; names of version 0.1 become those of today."""
    named = {LOOP_NAMES.get(name, name): value for name, value in settings.items()}
    return {name: value for name, value in named.items() if name != "checkpoint_seconds"}


@contextmanager
def _stop_at_sigterm(trainer: Trainer) -> Iterator[None]:
    """On SIGTERM finish the step, write a checkpoint and exit with 143."""

    def request_stop(*_: Any) -> None:
        trainer.is_stop_requested = True

    try:
        before = signal.signal(signal.SIGTERM, request_stop)
    except ValueError:  # not the main thread: whoever owns the process stops it
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
