"""Join the AttentionXML of bench/papers.py with Parabel (Eq. 9), and keep what the claims need.

    python bench/papers_consensus.py medline PREPARED runs/parabel-[123] --packed PACKED --test FILE

PREPARED has <corpus>-attention, PACKED is the folder that bench/papers.py packed; the runs are
three of `ontodex train --model parabel` on the same corpus. Parabel's trees have no seed and differ
from training to training; the n-th joins the n-th seed of AttentionXML. Without --packed only
Parabel is measured. Writes bench/results/claims/<corpus>-parabel-<n>.npz and
<corpus>-attentionxml+parabel-<n>.npz, and prints the figures of all as Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from claims import RESULTS, measure_documents
from consensus import Kept, Member
from ontodex.corpora.open import open_corpus
from ontodex.models.consensus.system import Consensus
from ontodex.runs.run import load
from ontodex.types import Corpus, LabelSpace, Ranking
from papers_collect import open_gold, unpack_ranking

NETWORK, TREES = "attentionxml", "parabel"
BOTH = f"{NETWORK}+{TREES}"
RANKS = 50  # that bench/papers_text.py kept of test
Figures = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("prepared", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", help="trainings of Parabel")
    parser.add_argument("--packed", type=Path, help="rankings of AttentionXML")
    parser.add_argument("--test", type=Path, required=True)
    given = parser.parse_args()
    labels, gold = open_gold(given.corpus, given.prepared)
    test = open_corpus(given.test)
    sides: dict[str, list[Figures]] = {}
    for number, folder in enumerate(given.runs, start=1):
        run = load(folder)
        check_labels(labels, run.labels)
        rankings = {TREES: run.rank(test, RANKS)}
        if given.packed:
            kept = read_ranking(given.packed, f"{given.corpus}-{NETWORK}-{number}.npz")
            rankings |= {NETWORK: kept, BOTH: join((kept, rankings[TREES]), test, labels)}
        for name, ranking in rankings.items():
            figures = measure_documents(gold, ranking, labels)
            path = RESULTS / f"{given.corpus}-{name}-{number}.npz"
            np.savez_compressed(path, **figures)  # type: ignore[arg-type]
            sides.setdefault(name, []).append(figures)
    sys.stdout.write(format_table(sides))


def check_labels(ours: LabelSpace, others: LabelSpace) -> None:
    """Stop where the columns of the run are not those of the prepared corpus."""
    if ours.ids[: ours.n_seen] != others.ids[: others.n_seen]:
        raise SystemExit(
            f"the run has {others.n_seen} learned labels, the prepared corpus {ours.n_seen}, or "
            "they differ; train it on the documents from which the corpus was prepared"
        )


def read_ranking(packed: Path, name: str) -> Ranking:
    """Return the ranking of the test documents that a training kept."""
    for archive in sorted(packed.glob("arrays-*.tar")):
        with tarfile.open(archive) as file, tempfile.TemporaryDirectory() as folder:
            if name in file.getnames():
                file.extract(name, folder, filter="data")
                with np.load(Path(folder) / name) as arrays:
                    return unpack_ranking(arrays, "test")
    raise SystemExit(f"{packed}: no archive has {name}")


def join(rankings: Sequence[Ranking], test: Corpus, labels: LabelSpace) -> Ranking:
    """Return the consensus of rankings of the test documents (Eq. 9)."""
    members = [Member(Path(), labels, Kept({test.key: ranking})) for ranking in rankings]
    return Consensus.of(members, labels).rank(test, RANKS)


def format_table(sides: Mapping[str, Sequence[Figures]]) -> str:
    """Return a Markdown table: mean and standard deviation over seeds, percent."""
    names = list(next(iter(sides.values()))[0])
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for side, seeds in sides.items():
        values = [[100 * float(np.nanmean(one[name])) for one in seeds] for name in names]
        cells = [f"{np.mean(each):.2f} ± {np.std(each, ddof=1):.2f}" for each in values]
        lines.append(f"| `{side}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
