"""Cache of finished training stages: networks of a pass, predictions of a fold, pointer generator.

Each stage is a folder below `work`, written atomically. Its name has a digest of everything the
stage depends on. So a killed training continues, and trainings that differ only in later stages
share the earlier ones.
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

from ontodex.io.files import replace_folder
from ontodex.io.tensors import read_tensors, save_tensors

logger = logging.getLogger(__name__)

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class StageCache:
    """Finished stages below a folder (None: no cache), by name and cache key."""

    folder: Path | None
    key: Mapping[str, Any]  # everything that the stages depend on, as JSON values
    seconds: dict[str, float]  # filled with the training time of each stage
    total: int  # stages of the whole training
    memory: dict[str, int] = field(default_factory=dict)  # peak GPU memory of each stage

    def format_title(self, what: str) -> str:
        """Return the title of the progress bar of the stage that is trained now."""
        return f"{len(self.seconds) + 1} of {self.total}: {what}"

    def get_or_train(self, name: str, make: Callable[[Path | None], Arrays]) -> Arrays:
        """Return the arrays of a stage, from the disk if it is finished.

        Otherwise call `make` with the folder for checkpoints, and store the result.
        """
        began = time.monotonic()
        if self.folder is None:
            arrays = self._measure(name, make, None)
            self.seconds[name] = time.monotonic() - began
            return arrays
        finished = self.folder / f"{name.replace(' ', '-')}-{self._digest_key()}"
        running = finished.with_name(finished.name + ".running")
        if finished.is_dir():
            return self._read(name, finished, running)
        return self._train(name, make, finished, running, began)

    def _digest_key(self) -> str:
        return hashlib.sha256(json.dumps(self.key, sort_keys=True).encode()).hexdigest()[:12]

    def _read(self, name: str, finished: Path, running: Path) -> Arrays:
        """Return the arrays of a finished stage."""
        from ontodex.training.distributed import on_rank_zero  # predicting needs no training code

        logger.info("%s: finished before", name)
        on_rank_zero(lambda: self._remove_checkpoints(running, name), f"clear {name}")
        found = read_tensors(finished, "arrays")
        self.seconds[name] = float(found.pop("seconds")[0])
        if "memory" in found:
            self.memory[name] = int(found.pop("memory")[0])
        return found

    def _train(
        self,
        name: str,
        make: Callable[[Path | None], Arrays],
        finished: Path,
        running: Path,
        began: float,
    ) -> Arrays:
        """Train a stage, or continue its training, and store it."""
        from ontodex.training.clock import start_clock
        from ontodex.training.distributed import on_rank_zero

        earlier = on_rank_zero(lambda: start_clock(running), f"begin {name}")
        arrays = self._measure(name, make, running)
        self.seconds[name] = (earlier or 0.0) + time.monotonic() - began
        on_rank_zero(lambda: self._store(arrays, finished, running, name), f"keep {name}")
        logger.info("%s: %.0f s", name, self.seconds[name])
        return arrays

    def _measure(
        self, name: str, make: Callable[[Path | None], Arrays], folder: Path | None
    ) -> Arrays:
        """Train a stage and measure its peak GPU memory."""
        if not torch.cuda.is_initialized():
            return make(folder)
        torch.cuda.reset_peak_memory_stats()
        arrays = make(folder)
        self.memory[name] = torch.cuda.max_memory_allocated()
        return arrays

    def _store(self, arrays: Arrays, place: Path, running: Path, name: str) -> None:
        with replace_folder(place) as temporary:
            took = {"seconds": np.array([self.seconds[name]])}
            if name in self.memory:
                took["memory"] = np.array([self.memory[name]])
            save_tensors(temporary, "arrays", {**arrays, **took})
        self._remove_checkpoints(running, name)

    def _remove_checkpoints(self, running: Path, name: str) -> None:
        """Remove the checkpoints of a finished stage and append its log to the log of the training.

        A training that was killed just before may have left checkpoints behind.
        """
        own = running / "log.jsonl"
        if own.exists() and self.folder is not None:
            lines = [json.loads(line) for line in own.read_text(encoding="utf-8").splitlines()]
            with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"piece": name, **line}) + "\n" for line in lines)
        shutil.rmtree(running, ignore_errors=True)


def digest_arrays(*arrays: NDArray[Any]) -> str:
    """Return the SHA-256 of the bytes of some arrays."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def digest_pattern(matrix: csr_array) -> str:
    """Return the digest of the positions of the ones in a sparse matrix, for any index type."""
    return digest_arrays(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))
