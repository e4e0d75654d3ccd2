"""The only training loop. It knows no model by name.

    for each epoch: for each batch of rows: loss ─ backward ─ (all-reduce) ─ clip ─ step ─ average
    after each epoch: dev score ─ keep the best weights ─ stop early

A system brings its network, `batches(epoch)` (rows of training documents in a fixed order) and
`loss(rows)`. Started by torchrun, each process takes its share of every batch and gradients are
summed, so the result is that of one process. Checkpoints hold everything that shapes what comes
after (weights, optimizer, averages, random state, place in the epoch): a resumed run is the same
run. Nothing in a step waits for the GPU.
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
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.config import check_least, check_seed, check_shares
from ontodex.errors import RunError
from ontodex.train import checkpoint
from ontodex.train.device import give_memory_back
from ontodex.train.log import TrainingLog
from ontodex.train.processes import world
from ontodex.train.rows import (
    RowAdamW,
    RowAverage,
    averaging_share,
    clip_norm,
    merge_rows,
    no_rows,
    pieces,
    sum_rows,
    tables_of,
)

logger = logging.getLogger(__name__)

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class LoopConfig:
    """How a network is trained, whichever it is."""

    epochs: int = 10  # times over the training documents, at most
    batch: int = 128  # documents a step, over all processes
    optimizer: Literal["adam", "sgd"] = "adam"  # sgd: with momentum
    lr: float = 2e-3  # at its peak
    warmup: int = 300  # steps until the peak; never more than a tenth of all steps
    final_lr: float = 0.02  # share of the peak at the last step, reached in a straight line
    momentum: float = 0.9  # of sgd
    weight_decay: float = 0.0  # decoupled, as in AdamW; with sgd a part of the gradient
    clip: float = 20.0  # greatest gradient norm; 0 = any
    average: float = 0.003  # least step of the moving average of the weights; 0 = no average
    patience: int = 3  # epochs without a better dev score before training stops; 0 = never
    checkpoint_seconds: float = 60.0  # time between checkpoints, where there is a folder for them
    seed: int = 1  # of the first weights, the order of documents and dropout

    def __post_init__(self) -> None:
        check_least(self, 1, "epochs", "batch")
        check_least(self, 0, "warmup", "weight_decay", "clip", "patience", "checkpoint_seconds")
        check_seed(self)
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be above 0, not {self.lr}")
        if not 0 <= self.final_lr <= 1:
            raise ValueError(f"final_lr must be in [0, 1], not {self.final_lr}")
        check_shares(self, "average", "momentum")


@dataclass
class State:
    """Where a training is, besides the tensors."""

    epoch: int = 0
    position: int = 0  # batches of this epoch that are done
    step: int = 0  # optimizer steps that are done
    micro: int = 0  # documents that fit into memory at once; 0 = the whole batch
    skipped: int = 0  # steps left out because a gradient was not finite
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
    figures: Callable[[], Mapping[str, float]] | None = None,
) -> State:
    """Train `network` in place; it ends with the weights of the best dev score.

    `loss(rows)` is the mean loss of these documents. `score()` is asked after every epoch (higher
    is better), with averaged weights in place. `folder` keeps checkpoints and the log; `title` says
    on the progress bar what is being trained. `stop` ends after so many epochs of a schedule that
    is made for `config.epochs`. What `figures()` gives after an epoch is put into its log line.
    """
    give_memory_back()
    trainer = _Trainer(network, batches, loss, config, score, folder, after_step, title)
    trainer.last = min(config.epochs, stop or config.epochs)
    trainer.figures = figures
    with _stops_politely(trainer):
        trainer.run()
    return trainer.state


class _Trainer:
    """The tensors and counters of one training."""

    def __init__(
        self,
        network: nn.Module,
        batches: Callable[[int], Sequence[Rows]],
        loss: Callable[[Rows], Tensor],
        config: LoopConfig,
        score: Callable[[], float] | None,
        folder: Path | None,
        after_step: Callable[[], None] | None,
        title: str = "training",
    ) -> None:
        self.title, self.last = title, config.epochs
        self.figures: Callable[[], Mapping[str, float]] | None = None
        self.network, self.batches, self.loss, self.config = network, batches, loss, config
        self.score, self.folder, self.after_step = score, folder, after_step
        self.parameters: list[Tensor] = [p for p in network.parameters() if p.requires_grad]
        self.device = self.parameters[0].device
        on_gpu = self.device.type == "cuda"
        self.optimizer = _optimizer(self.parameters, config, fused=on_gpu)
        # The recurrent encoder runs in fp16 on a GPU, where small gradients would vanish unscaled.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=on_gpu, init_scale=2.0**12)
        self.average = [p.detach().clone() for p in self.parameters] if config.average else []
        self.tables = {id(table) for table in tables_of(network)}
        self.row_averages = self.averages_by_row()
        # Copied once an epoch at most, so a GPU's memory is too dear for it.
        self.best = [p.detach().to("cpu", copy=True) for p in self.parameters] if score else []
        self.state = State(micro=config.batch)
        self.total = config.epochs * max(1, len(batches(0)))
        self.rank, self.world = world()
        self.stop_asked = False
        self.saved_at = time.monotonic()
        torch.manual_seed(config.seed)
        if folder is not None and checkpoint.exists(folder):
            self.restore()

    def run(self) -> None:
        done = self.state.epoch * len(self.batches(0)) + self.state.position
        folder = self.folder if self.rank == 0 else None
        log = TrainingLog(folder, self.total, done, self.title, epoch=self.state.epoch)
        with log:
            while not self.state.finished:
                self.epoch(log)
        if self.score is not None:
            _copy(self.best, self.parameters)
        elif self.average:
            self.settle_averages()
            _copy(self.average, self.parameters)
        self.give_up_on_huge_weights()

    def epoch(self, log: TrainingLog) -> None:
        """The rest of the current epoch, then the dev score."""
        self.network.train()
        plan = self.batches(self.state.epoch)
        losses: list[Tensor] = []
        while self.state.position < len(plan):
            rows = plan[self.state.position]
            losses.append(self.step(rows))
            self.state.position += 1
            log.step(len(rows), losses)
            self.save_when_due()
        self.count_lost_steps(losses)
        result = self.judge()
        figures = self.figures() if self.figures is not None else {}
        log.epoch(self.state.epoch, losses, result, self.state.skipped, figures)
        self.state.epoch, self.state.position = self.state.epoch + 1, 0
        waited = self.state.epoch - 1 - self.state.best_epoch
        tired = 0 < self.config.patience <= waited and self.score is not None
        self.state.finished = tired or self.state.epoch >= self.last
        if self.state.finished:
            self.save()
        else:  # a large network takes longer to write than an epoch takes to train
            self.save_when_due()

    def step(self, rows: Rows) -> Tensor:
        """One optimizer step on a batch; halves what is computed at once when memory runs out."""
        while True:
            try:
                value = self.gradients(rows)
                break
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
        self.set_learning_rate()
        self.scaler.unscale_(self.optimizer)
        norm = clip_norm(self.parameters, self.config.clip or math.inf)
        self.settle_averages(read_now=True)
        if self.device.type == "cuda":
            self.scaler.step(self.optimizer)  # leaves the step out, on the GPU, if not finite
            self.scaler.update()
        elif bool(torch.isfinite(norm)):
            self.optimizer.step()
        else:
            self.state.skipped += 1
            logger.warning("step %s: the gradient is not finite; left out", self.state.step)
            self.give_up_on_nan()
        self.optimizer.zero_grad(set_to_none=True)
        if self.after_step is not None:
            self.after_step()
        self.move_averages()
        self.state.step += 1
        return value

    def gradients(self, rows: Rows) -> Tensor:
        """Backward over this process's share, in pieces that fit; gives the summed loss."""
        mine = rows[self.rank :: self.world]
        total = torch.zeros((), device=self.device)
        for start in range(0, len(mine), self.state.micro):
            piece = mine[start : start + self.state.micro]
            value = self.loss(piece) * (len(piece) / len(rows))
            self.scaler.scale(value).backward()
            total += value.detach()
        merge_rows(self.parameters)
        if self.world > 1:
            self.sum_over_processes(total)
        return total

    def sum_over_processes(self, total: Tensor) -> None:
        import torch.distributed as dist

        for parameter in self.parameters:
            if id(parameter) in self.tables:
                mine = parameter.grad if parameter.grad is not None else no_rows(parameter)
                parameter.grad = sum_rows(mine)
            elif parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        dense = [p.grad for p in self.parameters if p.grad is not None and not p.grad.is_sparse]
        flat = torch.cat([grad.reshape(-1) for grad in dense])
        dist.all_reduce(flat)
        dist.all_reduce(total)
        at = 0
        for grad in dense:
            grad.copy_(flat[at : at + grad.numel()].view_as(grad))
            at += grad.numel()

    def count_lost_steps(self, losses: list[Tensor]) -> None:
        """On a GPU the scaler left out steps by itself; here they are counted and said."""
        if self.device.type != "cuda" or not losses:
            return
        lost = int((~torch.isfinite(torch.stack(losses))).sum())
        if lost:
            self.state.skipped += lost
            logger.warning("epoch %s: %s steps were not finite; left out", self.state.epoch, lost)
            self.give_up_on_nan()

    def give_up_on_nan(self) -> None:
        if self.state.skipped >= 25:
            raise RunError(
                f"{self.state.skipped} steps had a loss or gradient that is not finite",
                hint="lower the learning rate: --set model.train.lr=5e-4",
            )

    def give_up_on_huge_weights(self) -> None:
        """Systems keep their weights in half precision, where what diverged would be infinite."""
        largest = max(float(p.detach().abs().max()) for p in self.parameters if p.numel())
        if not largest <= torch.finfo(torch.float16).max:
            raise RunError(
                f"the training diverged: its largest weight is {largest:.3g}",
                hint="lower the learning rate: --set model.train.lr=5e-4, with another --out",
            )

    def set_learning_rate(self) -> None:
        done = self.state.step
        warmup = max(1, min(self.config.warmup, self.total // 10))
        rise = min(1.0, (done + 1) / warmup)
        fall = 1 - (1 - self.config.final_lr) * done / max(1, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr * min(rise, fall)

    def averages_by_row(self) -> dict[int, RowAverage]:
        """By the number of the parameter: averages that cost what a step reads, not the table."""
        return {
            i: RowAverage(self.parameters[i], average, self.config.average)
            for i, average in enumerate(self.average)
            if id(self.parameters[i]) in self.tables
        }

    def settle_averages(self, *, read_now: bool = False) -> None:
        """Bring the averages of tables up to date, or only those of the rows read in this step."""
        for i, average in self.row_averages.items():
            grad = self.parameters[i].grad
            if not read_now:
                average.settle(self.state.step)
            elif grad is not None:
                average.settle(self.state.step, grad._indices()[0])

    def move_averages(self) -> None:
        whole = [i for i in range(len(self.average)) if i not in self.row_averages]
        if whole:
            torch._foreach_lerp_(
                [self.average[i] for i in whole],
                [self.parameters[i] for i in whole],
                averaging_share(self.config.average, self.state.step),
            )

    def judge(self) -> float | None:
        """The dev score with averaged weights; the best weights so far are kept."""
        if self.score is None:
            return None
        self.network.eval()
        with self.averaged():
            result = self.score()
            if result > self.state.best:
                self.state.best, self.state.best_epoch = result, self.state.epoch
                _copy(self.parameters, self.best)
        return result

    @contextmanager
    def averaged(self) -> Iterator[None]:
        if not self.average:
            yield
            return
        self.settle_averages()
        _exchange(self.average, self.parameters)
        try:
            yield
        finally:
            _exchange(self.average, self.parameters)

    # ------------------------------------------------------------------------------ checkpoints

    def save_when_due(self) -> None:
        due = time.monotonic() - self.saved_at > self.config.checkpoint_seconds
        if due or self.stop_asked:
            self.save()
        if self.stop_asked:
            raise SystemExit(128 + signal.SIGTERM)

    def save(self) -> None:
        self.saved_at = time.monotonic()
        if self.folder is None or self.rank != 0:
            return
        tensors = {f"weight.{i}": p.detach() for i, p in enumerate(self.parameters)}
        tensors |= {f"buffer.{name}": b for name, b in self.network.named_buffers()}
        tensors |= {f"average.{i}": a for i, a in enumerate(self.average)}
        tensors |= {f"settled.{i}": a.settled for i, a in self.row_averages.items()}
        tensors |= {f"best.{i}": b for i, b in enumerate(self.best)}
        for i, parameter in enumerate(self.parameters):
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{i}.{key}"] = value
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        about = {
            "state": vars(self.state),
            "scaler": self.scaler.state_dict(),
            "config": _shaping(vars(self.config)),
        }
        checkpoint.write(self.folder, tensors, about)

    def restore(self) -> None:
        assert self.folder is not None
        tensors, about = checkpoint.read(self.folder)
        if _shaping(about["config"]) != json.loads(json.dumps(_shaping(vars(self.config)))):
            raise RunError(f"{self.folder}: its checkpoint was made with other settings")
        _copy([tensors[f"weight.{i}"] for i in range(len(self.parameters))], self.parameters)
        for name, buffer in self.network.named_buffers():
            buffer.copy_(tensors[f"buffer.{name}"])
        _copy([tensors[f"average.{i}"] for i in range(len(self.average))], self.average)
        for i, average in self.row_averages.items():
            average.settled.copy_(tensors[f"settled.{i}"])
        _copy([tensors[f"best.{i}"] for i in range(len(self.best))], self.best)
        for i, parameter in enumerate(self.parameters):
            prefix = f"optimizer.{i}."
            found = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            # Adam keeps its step counter on the CPU unless it is fused.
            self.optimizer.state[parameter] = {
                k: v.clone() if k == "step" and self.device.type == "cpu" else v.to(self.device)
                for k, v in found.items()
            }
        torch.set_rng_state(tensors["random.cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        self.scaler.load_state_dict(about["scaler"])
        self.state = State(**about["state"])


def _shaping(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that shape what is learned."""
    return {name: value for name, value in settings.items() if name != "checkpoint_seconds"}


def _optimizer(
    parameters: Sequence[Tensor], config: LoopConfig, *, fused: bool
) -> torch.optim.Optimizer:
    lr, decay = config.lr, config.weight_decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=lr, momentum=config.momentum, weight_decay=decay, fused=fused
        )
    return RowAdamW(parameters, lr=lr, weight_decay=decay, fused=fused)


def _copy(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for one, other in zip(source, target, strict=True):
            other.copy_(one)


def _exchange(ones: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """Each takes the other's values, a piece at a time."""
    with torch.no_grad():
        for one, other in zip(
            map(torch.atleast_1d, ones), map(torch.atleast_1d, others), strict=True
        ):
            for rows in pieces(len(one)):
                kept = one[rows].clone()
                one[rows] = other[rows]
                other[rows] = kept


@contextmanager
def _stops_politely(trainer: _Trainer) -> Iterator[None]:
    """SIGTERM: finish the step, save, exit with 143."""

    def ask(*_: Any) -> None:
        trainer.stop_asked = True

    try:
        before = signal.signal(signal.SIGTERM, ask)
    except ValueError:  # not the main thread: whoever owns the process stops it
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
