"""What is finished of a long training: a fold's predictions, a pass's network, a pointer generator.

Each is a folder below `work`, written whole or not at all and found again by what it was made from:
a killed training goes on, and trainings that differ only later share what comes before.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.files import atomic_folder
from ontodex.train import store
from ontodex.train.processes import by_the_first

logger = logging.getLogger(__name__)

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Pieces:
    """Finished results below a folder (None: nowhere), by name and by what they were made from."""

    folder: Path | None
    made_from: Mapping[str, Any]  # JSON values
    seconds: dict[str, float]  # filled with what each piece took
    total: int  # pieces of the whole training
    memory: dict[str, int] = field(default_factory=dict)  # and with its peak on the GPU, in bytes

    def title(self, what: str) -> str:
        """For the progress bar of the piece that is being made."""
        return f"{len(self.seconds) + 1} of {self.total}: {what}"

    def get(self, name: str, make: Callable[[Path | None], Arrays]) -> Arrays:
        """What `make(folder for checkpoints)` gives, from the disk where it was finished before."""
        began = time.monotonic()
        if self.folder is None:
            arrays = self._make(name, make, None)
            self.seconds[name] = time.monotonic() - began
            return arrays
        plan = json.dumps(self.made_from, sort_keys=True)
        key = hashlib.sha256(plan.encode()).hexdigest()[:12]
        place = self.folder / f"{name.replace(' ', '-')}-{key}"
        running = place.with_name(place.name + ".running")
        if place.is_dir():
            logger.info("%s: finished before", name)
            by_the_first(lambda: self._clear(running, name), f"clear {name}")
            found = store.load_tensors(place, "arrays")
            self.seconds[name] = float(found.pop("seconds")[0])
            if "memory" in found:
                self.memory[name] = int(found.pop("memory")[0])
            return found
        earlier = by_the_first(lambda: store.earlier_seconds(running), f"begin {name}")
        arrays = self._make(name, make, running)
        self.seconds[name] = (earlier or 0.0) + time.monotonic() - began
        by_the_first(lambda: self._keep(arrays, place, running, name), f"keep {name}")
        logger.info("%s: %.0f s", name, self.seconds[name])
        return arrays

    def _make(
        self, name: str, make: Callable[[Path | None], Arrays], folder: Path | None
    ) -> Arrays:
        if not torch.cuda.is_initialized():
            return make(folder)
        torch.cuda.reset_peak_memory_stats()
        arrays = make(folder)
        self.memory[name] = torch.cuda.max_memory_allocated()
        return arrays

    def _keep(self, arrays: Arrays, place: Path, running: Path, name: str) -> None:
        with atomic_folder(place) as temporary:
            took = {"seconds": np.array([self.seconds[name]])}
            if name in self.memory:
                took["memory"] = np.array([self.memory[name]])
            store.save_tensors(temporary, "arrays", {**arrays, **took})
        self._clear(running, name)

    def _clear(self, running: Path, name: str) -> None:
        """Remove the checkpoints of a finished piece, where no kill came between and left them, and
        put its log at the end of the one log of this training."""
        own = running / "log.jsonl"
        if own.exists() and self.folder is not None:
            lines = [json.loads(line) for line in own.read_text(encoding="utf-8").splitlines()]
            with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"piece": name, **line}) + "\n" for line in lines)
        shutil.rmtree(running, ignore_errors=True)


def digest_of(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def digest_of_ones(matrix: csr_array) -> str:
    """Of where a matrix of zeros and ones has ones, whatever integers its places are kept in."""
    return digest_of(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))
