"""What a training tells while it runs: a bar with an ETA, log.jsonl, TensorBoard when installed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from ontodex import progress
from ontodex.files import write_text


class TrainingLog:
    """Losses stay on their device until a line is due, so that no step waits for them."""

    def __init__(
        self,
        folder: Path | None,
        total_steps: int,
        done: int,
        title: str = "training",
        *,
        epoch: int = 0,
    ) -> None:
        """`epoch` is the one that comes first: after a kill, not the first of all."""
        self._folder, self._total, self._done, self._title = folder, total_steps, done, title
        self._first = epoch
        self._docs, self._began, self._looked = 0, time.monotonic(), 0.0
        self._bar: progress.Bar | None = None
        self._board: Any = None

    def __enter__(self) -> Self:
        self._bar = progress.Bar(self._title, self._total, self._done)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._forget_undone()
            if find_spec("tensorboard") is not None:
                from torch.utils.tensorboard import SummaryWriter

                self._board = SummaryWriter(str(self._folder / "tensorboard"))
        return self

    def _forget_undone(self) -> None:
        """Epochs after the last checkpoint are trained again after a kill, and told again."""
        assert self._folder is not None
        path = self._folder / "log.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(path, "".join(line for line in lines if _epoch_of(line) < self._first))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._board is not None:
            self._board.close()

    def step(self, documents: int, losses: list[Tensor]) -> None:
        """Count a step; every two seconds the bar shows the loss and documents a second."""
        self._docs += documents
        assert self._bar is not None
        self._bar.advance()
        now = time.monotonic()
        if self._bar.visible and now - self._looked > 2:
            self._looked = now
            speed = self._docs / (now - self._began)
            self._bar.say(f"loss {float(losses[-1]):.5f}, {speed:,.0f} docs/s")

    def epoch(
        self,
        epoch: int,
        losses: list[Tensor],
        score: float | None,
        skipped: int,
        figures: Mapping[str, float],
    ) -> None:
        """One line of log.jsonl an epoch; `figures` are what the system itself has to tell."""
        finite = [value for value in map(float, losses) if math.isfinite(value)]
        seconds = time.monotonic() - self._began
        record = {
            "epoch": epoch,
            "loss": sum(finite) / len(finite) if finite else None,
            "dev": score,
            "docs_per_second": round(self._docs / seconds, 1) if seconds else None,
            "seconds": round(seconds, 2),
            "skipped_steps": skipped,
            **figures,
        }
        if self._folder is not None:
            with (self._folder / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        if self._board is not None:
            for name in ("loss", "dev", *figures):
                if record[name] is not None:
                    self._board.add_scalar(name, record[name], epoch)
        assert self._bar is not None
        self._bar.say(f"epoch {epoch + 1}: dev {score:.4f}" if score is not None else "")


def _epoch_of(line: str) -> float:
    """The epoch that a line tells of; none where a kill cut it off."""
    try:
        return int(json.loads(line)["epoch"])
    except ValueError:
        return math.inf
