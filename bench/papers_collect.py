"""Turn what bench/papers.py brought back into the small files that claims and tables read.

    python bench/papers_collect.py PREPARED PACKED [PACKED ...]

PREPARED has <corpus>-attention, of which the true labels are read; PACKED are folders of `packed`.
Texts: bench/results/claims/<corpus>-<row>-<seed>.npz, the figures of each test document. Levels:
bench/results/claims/<corpus>-levels-<row>-<seed>.npz, counts of each test document; each fixed
number of labels K is chosen on dev. All figures: bench/results/papers/figures.json.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from claims import RESULTS, measure_documents
from claims_levels import TRAINED
from ontodex.types import Corpus, LabelSpace, Ranking
from papers_counts import MOST_K
from papers_jobs import CHUNKS, TEXT

FIGURES = RESULTS.parent / "papers" / "figures.json"
DROPPED = ("epochs", "curves", "settings")
Arrays = Mapping[str, NDArray[Any]]


def main() -> None:
    prepared, packed = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    lines = json.loads(FIGURES.read_text()) if FIGURES.exists() else []
    by_job = {line["job"]: line for line in lines}
    for folder in packed:
        for line in json.loads((folder / "figures.json").read_text()):
            by_job[line["job"]] = shorten(line)
        with tempfile.TemporaryDirectory() as unpacked:
            for archive in sorted(folder.glob("arrays-*.tar")):
                with tarfile.open(archive) as file:
                    file.extractall(unpacked, filter="data")
            for path in sorted(Path(unpacked).glob("*.npz")):
                collect(path, prepared, by_job[path.stem])
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    text = ",\n".join(json.dumps(by_job[name]) for name in sorted(by_job))
    FIGURES.write_text(f"[\n{text}\n]\n")


def shorten(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a job, and how many epochs it trained."""
    epochs = line.get("epochs", [])
    short = {name: value for name, value in line.items() if name not in DROPPED}
    loop = line.get("settings", {}).get("train", {})
    return {**short, "trained epochs": len(epochs), "most epochs": loop.get("epochs")}


def collect(path: Path, prepared: Path, line: Mapping[str, Any]) -> None:
    """Write the small file of a job."""
    corpus, rest = path.stem.split("-", 1)
    row, seed = rest.rsplit("-", 1)
    if row in CHUNKS:  # no row of a claim: its figures on dev are all that is wanted
        return
    with np.load(path) as arrays:
        is_text = row in TEXT
        found = measure_text(corpus, prepared, arrays) if is_text else count_levels(arrays, line)
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = f"{corpus}-{row}-{seed}" if is_text else f"{corpus}-levels-{row}-{seed}"
    np.savez_compressed(RESULTS / f"{name}.npz", **found)  # type: ignore[arg-type]


def measure_text(corpus: str, prepared: Path, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return the figures of each test document."""
    labels, gold = open_gold(corpus, prepared)
    ranking = unpack_ranking(arrays, "test")
    return measure_documents(gold, ranking, labels)


@cache
def open_gold(corpus: str, prepared: Path) -> tuple[LabelSpace, Any]:
    """Return the labels of a corpus and the true ones of its test documents."""
    train, test = (Corpus.open(prepared / f"{corpus}-attention" / p) for p in ("train", "test"))
    labels = LabelSpace.of(train)
    return labels, labels.gold(test)


def unpack_ranking(arrays: Arrays, part: str) -> Ranking:
    """Return the ranking that bench/papers_text.py kept."""
    columns = arrays[f"{part}_columns"].astype(np.int32) - 1
    return Ranking.sort(columns, arrays[f"{part}_p"].astype(np.float32), columns.shape[1])


def count_levels(arrays: Arrays, line: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the counts of the test documents, with the fixed K that dev chooses.

    Of each set: (documents, 3), hits, predicted and true. Of the levels of a pass: (levels,
    documents, 6), hits of K = 5, of the best K of all levels, of the best K of the level, hits and
    predictions of OFO, true labels; beside it the predictions of each K, (levels, 3).
    """
    sizes = np.array(list(line["levels"].values()))
    found: dict[str, NDArray[Any]] = {}
    for key in arrays:
        part, _, name = key.partition(", ")
        if part != "test":
            continue
        if not name.endswith(", levels"):
            found[name] = _shrink(arrays[key])
            continue
        test, dev = arrays[key], arrays[f"dev, {name}"]
        chosen = choose_k(dev, sizes)  # (levels, 3)
        picked = np.take_along_axis(test, (chosen - 1)[:, None, :], axis=2)
        found[name] = _shrink(np.concatenate([picked, test[:, :, MOST_K:]], axis=2))
        found[f"{name}, K"] = chosen
        found[f"{name}, predicted"] = np.minimum(chosen, sizes[:, None])
    if TRAINED in line:  # whether its pointer generator is, or the untrained one was kept
        found[TRAINED] = np.array(line[TRAINED])
    return found


def choose_k(dev: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Return (levels, 3): K = 5, the K with the best micro-F on dev on average over the levels, and
    that of each level."""
    of_k = np.array(
        [micro_f_of_k(level, int(size)) for level, size in zip(dev, sizes, strict=True)]
    )
    best = of_k.argmax(axis=1) + 1  # (levels,)
    single = np.nanmean(of_k, axis=0).argmax() + 1
    return np.stack([np.full(len(dev), 5), np.full(len(dev), single), best], axis=1)


def micro_f_of_k(level: NDArray[Any], size: int) -> NDArray[np.float64]:
    """Return the micro-F of K = 1 to 10 over the documents with a label of this level."""
    own = level[level[:, -1] > 0].astype(np.int64)
    predicted = np.minimum(np.arange(1, MOST_K + 1), size) * len(own)
    return np.asarray(2 * own[:, :MOST_K].sum(axis=0) / (predicted + own[:, -1].sum()))


def _shrink(counts: NDArray[Any]) -> NDArray[Any]:
    return counts.astype(np.uint8 if counts.max(initial=0) < 256 else np.uint16)


if __name__ == "__main__":
    main()
