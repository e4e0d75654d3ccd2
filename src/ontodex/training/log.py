"""The log of a training: a progress bar, log.jsonl, and TensorBoard where it is installed."""

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

from ontodex.io import progress
from ontodex.io.files import write_text


class TrainingLog:
    """The log of one training.

    Losses stay on their device until a line is due, so that no step waits for the GPU.
    """

    def __init__(
        self,
        folder: Path | None,
        total_steps: int,
        done: int,
        title: str = "training",
        *,
        epoch: int = 0,
    ) -> None:
        """`done` and `epoch` are the steps and epochs that a killed process had finished."""
        self._folder, self._total, self._done, self._title = folder, total_steps, done, title
        self._first_epoch = epoch
        self._docs, self._began, self._last_shown = 0, time.monotonic(), 0.0
        self._bar: progress.Bar | None = None
        self._board: Any = None

    def __enter__(self) -> Self:
        self._bar = progress.Bar(self._title, self._total, self._done)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._drop_repeated_epochs()
            if find_spec("tensorboard") is not None:
                from torch.utils.tensorboard import SummaryWriter

                self._board = SummaryWriter(str(self._folder / "tensorboard"))
        return self

    def _drop_repeated_epochs(self) -> None:
        """Remove the lines of epochs that will be trained again: those after the checkpoint."""
        assert self._folder is not None
        path = self._folder / "log.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(path, "".join(line for line in lines if _epoch_of(line) < self._first_epoch))

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

    def log_step(self, documents: int, losses: list[Tensor]) -> None:
        """Count a step; every two seconds show the loss and documents per second on the bar."""
        self._docs += documents
        assert self._bar is not None
        self._bar.advance()
        now = time.monotonic()
        if self._bar.visible and now - self._last_shown > 2:
            self._last_shown = now
            speed = self._docs / (now - self._began)
            self._bar.set_status(f"loss {float(losses[-1]):.5f}, {speed:,.0f} docs/s")

    def log_epoch(
        self,
        epoch: int,
        losses: list[Tensor],
        score: float | None,
        skipped: int,
        metrics: Mapping[str, float],
    ) -> None:
        """Write one line of log.jsonl; `metrics` are the system's own additions to it."""
        finite = [value for value in map(float, losses) if math.isfinite(value)]
        seconds = time.monotonic() - self._began
        record = {
            "epoch": epoch,
            "loss": sum(finite) / len(finite) if finite else None,
            "dev": score,
            "docs_per_second": round(self._docs / seconds, 1) if seconds else None,
            "seconds": round(seconds, 2),
            "skipped_steps": skipped,
            **metrics,
        }
        if self._folder is not None:
            with (self._folder / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        if self._board is not None:
            for name in ("loss", "dev", *metrics):
                if record[name] is not None:
                    self._board.add_scalar(name, record[name], epoch)
        assert self._bar is not None
        self._bar.set_status(f"epoch {epoch + 1}: dev {score:.4f}" if score is not None else "")


def _epoch_of(line: str) -> float:
    """Return the epoch of a line; infinity where a kill cut the line off."""
    try:
        return int(json.loads(line)["epoch"])
    except ValueError:
        return math.inf
