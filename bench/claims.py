"""Claims of the papers, measured and judged: writes docs/papers/claims.md.

    python bench/claims.py measure [CORPUS ...]     train what bench/claims.toml names
    python bench/claims.py page                     write the page from the saved figures

A claim compares sides: systems with settings, perhaps trained on noisy labels. Every side is
trained with each seed. The figures of each test document are kept in bench/results/claims, one file
for each corpus, side and seed; what is there is not trained again.

Verdict: the mean over seeds of each document's figure, first side minus second, and the 95 %
interval of the paired bootstrap over documents. `held` lies above 0, `not held` below 0, all else
is `undecided`, and so is every claim with fewer than three trainings on a side, and one that is
lost by a side whose training was cut while it still rose (`rising`). A deterministic side is
trained once, and repeated figures count as one training. A claim against quoted figures takes
the 95 % interval of the mean of random splits (bench/splits.py --figures), or with `split =
"standard"` that of the documents of the standard split. A quoted system with a `second` instead of
a `first` is the one that should be better.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

from claims_levels import compare_counts
from ontodex.config import merge_tables
from ontodex.corpora import datasets
from ontodex.corpora.noise import Noise, corrupt_corpus
from ontodex.corpora.open import open_corpus
from ontodex.evaluation.ranking import ndcg, precision, score_documents
from ontodex.evaluation.significance import Interval, compare_means
from ontodex.io.files import open_atomic, write_text
from ontodex.models import find_model
from ontodex.models.interface import Refits
from ontodex.models.levelwise.levels import select_gold
from ontodex.runs.recipe import train as train_run
from ontodex.types import Corpus, LabelSpace, Ranking
from tune import a_fifth_aside

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ONTODEX_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "bench" / "results" / "claims"
PAGE = ROOT / "docs" / "papers" / "claims.md"
SEEDS = (1, 2, 3)
METRICS = {"P@1": (precision, 1), "P@3": (precision, 3), "P@5": (precision, 5), "nDCG@5": (ndcg, 5)}
GROUPS = {  # labels by training documents; a document without a label of the group has no figure
    "nDCG@5 of labels with 50 documents or fewer": (0, 50),
    "nDCG@5 of labels with more than 50": (51, 2**31),
}
PAPERS = {
    "DXML": "dxml",
    "Rank-AE": "rankae",
    "AttentionXML": "attentionxml",
    "LightAttention": "lightattention",
    "Deep Level-wise XMLC": "levelwise",
}
Verdict = Literal["held", "not held", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("held", "not held", "undecided")
Figures = Mapping[str, NDArray[np.float64]]  # metric -> (seeds, documents)


@dataclass(frozen=True)
class Side:
    """A system that is trained for a claim."""

    model: str
    settings: dict[str, Any] = field(default_factory=dict)  # of [model]
    noise: Noise | None = None
    rate: float = 0.0
    deterministic: bool = False  # no random numbers: one training says all

    @property
    def seeds(self) -> tuple[int, ...]:
        return SEEDS[:1] if self.deterministic else SEEDS


@dataclass(frozen=True)
class Claim:
    """One claim on one corpus."""

    paper: str
    text: str
    corpus: str
    first: str = ""  # side that should be better
    second: str = ""
    first_clean: str = ""  # with these, the side that should lose less against its clean form
    second_clean: str = ""
    quoted: str = ""  # system of another paper's table, instead of a second side
    quoted_value: float = 0.0
    split: Literal["random", "standard"] = "random"  # that quoted figures are compared on
    metric: str = "nDCG@5"
    counts: str = ""  # of Deep Level-wise XMLC: row and set, bench/claims_levels.py
    against: str = ""
    known: str = ""  # what is known without figures of documents
    reason: str = ""  # why such a claim is undecided
    rising: str = ""  # side whose training was cut: where it loses, nothing is decided
    note: str = ""  # said behind the numbers
    command: str = ""
    decided_by: str = ""  # command that could decide what `command` left open


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and what it rests on."""

    claim: Claim
    verdict: Verdict
    numbers: str
    interval: Interval | None = None
    levels: Sequence[Interval] = ()  # the difference at each level


def read_plan(path: Path) -> tuple[dict[str, Side], list[Claim]]:
    """Return the sides and the claims of a TOML file."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    sides = {name: Side(**table) for name, table in tables["sides"].items()}
    claims = [Claim(**table) for table in tables["claims"]]
    for claim in claims:
        unknown = set(sides_of(claim)) - set(sides)
        if unknown:
            raise SystemExit(f"{path}: there is no side {', '.join(sorted(unknown))}")
    return sides, claims


def sides_of(claim: Claim) -> list[str]:
    """Return the names of the sides that a claim compares."""
    names = (claim.first, claim.second, claim.first_clean, claim.second_clean)
    return [name for name in names if name and not claim.quoted]


@dataclass(frozen=True)
class Parts:
    """Documents to learn from, to choose by and to test on."""

    train: Corpus
    dev: Corpus | None  # None: a tenth of train, and systems that can are refitted on all of it
    test: Corpus


def open_parts(corpus: str, folder: Path) -> Parts:
    """Return the standard split of a data set, or the bundled sample.

    `delicious-fifth` has a fifth of the training documents as dev; `delicious-quarter` too, and
    learns from a quarter of the others.
    """
    if corpus == "sample":
        datasets.get("sample", folder / "sample")
        files = (folder / "sample" / f"{part}.jsonl" for part in ("train", "dev", "test"))
        return Parts(*map(open_corpus, files))
    name, _, part = corpus.partition("-")
    train, test = (open_corpus(DATA / name / f"{name}_{one}.txt.gz") for one in ("train", "test"))
    if not part:
        return Parts(train, None, test)
    train, dev = a_fifth_aside(train)
    if part == "quarter":
        train = train.select(np.random.default_rng(0).permutation(len(train))[: len(train) // 4])
    return Parts(train, dev, test)


def measure(side: Side, seed: int, parts: Parts) -> dict[str, NDArray[Any]]:
    """Train a side with one seed; return the figures of each test document that has labels."""
    train, dev, test = parts.train, parts.dev, parts.test
    if side.noise:
        if dev is None:
            raise SystemExit("noise needs a corpus with clean dev documents of its own")
        train = corrupt_corpus(train, side.noise, side.rate)
    system_class = find_model(side.model)
    own = {"seed": seed} if hasattr(system_class.Config(), "seed") else {}
    loop = {"train": {"seed": seed}} if hasattr(system_class.Config(), "train") else own
    tables = {
        "model": merge_tables({"name": side.model, **side.settings}, loop),
        "train": {"refit": issubclass(system_class, Refits) and dev is None},
    }
    with tempfile.TemporaryDirectory() as folder:
        run = train_run(config=tables, out=Path(folder) / "run", train=train, dev=dev)
        gold, ranking = run.labels.gold(test), run.rank(test, 5)
    return measure_documents(gold, ranking, None)


def measure_documents(
    gold: csr_array, ranking: Ranking, labels: LabelSpace | None
) -> dict[str, NDArray[Any]]:
    """Return the figures of each test document that has labels; with `labels` also of groups of
    labels by frequency, for which the ranking should be deep."""
    has_labels = np.diff(gold.indptr) > 0
    found = {
        name: score_documents(metric, k, gold, ranking)[has_labels].astype(np.float32)
        for name, (metric, k) in METRICS.items()
    }
    for name, (least, most) in GROUPS.items() if labels is not None else ():
        frequency = labels.frequency  # type: ignore[union-attr]
        wanted = np.flatnonzero((frequency >= least) & (frequency <= most))
        own = select_gold(gold, wanted)
        only = ranking.keep(np.isin(ranking.columns, wanted))
        found[name] = score_documents(ndcg, 5, own, only)[has_labels].astype(np.float32)
    return found


def keep_measuring(sides: Mapping[str, Side], claims: Sequence[Claim], only: list[str]) -> None:
    """Measure every side of every claim that has no file yet."""
    wanted = {
        (c.corpus, name) for c in claims for name in sides_of(c) if not only or c.corpus in only
    }
    for corpus, name in sorted(wanted):
        with tempfile.TemporaryDirectory() as folder:
            seeds = sides[name].seeds
            missing = [s for s in seeds if not (RESULTS / f"{corpus}-{name}-{s}.npz").exists()]
            if not missing:
                continue
            parts = open_parts(corpus, Path(folder))
            for seed in missing:
                figures = measure(sides[name], seed, parts)
                RESULTS.mkdir(parents=True, exist_ok=True)
                with open_atomic(RESULTS / f"{corpus}-{name}-{seed}.npz") as out:
                    np.savez_compressed(out, **figures)  # type: ignore[arg-type]
                means = ", ".join(f"{m} {100 * v.mean():.2f}" for m, v in figures.items())
                sys.stderr.write(f"{corpus} {name} {seed}: {means}\n")


def load_figures(corpus: str, side: str, folder: Path = RESULTS) -> Figures | None:
    """Return the figures of a side, (trainings, documents) for each metric; None where it has none.

    Files with the same figures are one training.
    """
    found: dict[bytes, Mapping[str, NDArray[Any]]] = {}
    for file in sorted(folder.glob(f"{corpus}-{side}-[0-9]*.npz")):
        one = np.load(file)
        found.setdefault(b"".join(one[name].tobytes() for name in METRICS), one)
    if not found:
        return None
    loaded = list(found.values())
    names = [name for name in (*METRICS, *GROUPS) if all(name in one for one in loaded)]
    return {m: np.stack([one[m].astype(np.float64) for one in loaded]) for m in names}


def judge(claim: Claim, folder: Path = RESULTS, sides: Mapping[str, Side] | None = None) -> Judged:
    """Return the verdict of a claim by the figures that are there."""
    if claim.quoted:
        return judge_quoted(claim, folder)
    if claim.counts:
        return judge_counts(claim, folder)
    figures = [load_figures(claim.corpus, name, folder) for name in sides_of(claim)]
    if not figures or any(one is None for one in figures):
        return Judged(claim, "undecided", claim.known)
    each = [one[claim.metric] for one in figures if one is not None]
    wanted = [len((sides or {}).get(name, Side("")).seeds) for name in sides_of(claim)]
    if any(len(one) < least for one, least in zip(each, wanted, strict=True)):
        seeds = " and ".join(str(len(one)) for one in each[:2])
        return Judged(claim, "undecided", f"{claim.known}; {seeds} trainings".removeprefix("; "))
    is_known = np.isfinite(each[0][0])  # documents with a label of the group
    each = [one[:, is_known] for one in each]
    means = [one.mean(axis=0) for one in each]  # over seeds, (documents,)
    first, second = means if len(means) == 2 else (means[0] - means[2], means[1] - means[3])
    found = compare_means(first, second)
    spread = [describe_seeds(one) for one in each]
    numbers = " against ".join(spread[:2]) + _fall(spread)
    return Judged(claim, decide_trained(claim, decide(found)), numbers, found)


def decide_trained(claim: Claim, verdict: Verdict) -> Verdict:
    """Return the verdict, but `undecided` where the side that loses was still rising."""
    loser = {"held": claim.second, "not held": claim.first}.get(verdict)
    return "undecided" if claim.rising and claim.rising == loser else verdict


def _fall(spread: list[str]) -> str:
    return f"; clean {spread[2]} and {spread[3]}" if len(spread) == 4 else ""


def judge_counts(claim: Claim, folder: Path) -> Judged:
    """Return the verdict of a claim on the label sets or the levels of Deep Level-wise XMLC."""
    found = compare_counts(claim.corpus, claim.counts, claim.against, claim.metric, folder)
    if found is None:
        return Judged(claim, "undecided", claim.known)
    sides = (found.first, found.second)
    if min(map(len, sides)) < len(SEEDS):
        return Judged(claim, "undecided", " and ".join(f"{len(one)}" for one in sides) + " seeds")
    spread = [f"{np.mean(one):.2f} ± {np.std(one, ddof=1):.2f}" for one in sides]
    numbers = "; ".join(filter(None, (" against ".join(spread), found.note)))
    verdict = decide(found.difference)
    if found.levels:
        verdicts = [decide(one) for one in found.levels]
        verdict = decide_all(verdicts)
        counted = ", ".join(f"{verdicts.count(v)} {v}" for v in VERDICTS if v in verdicts)
        numbers += f"; of {len(verdicts)} levels {counted}"
    return Judged(claim, verdict, numbers, found.difference, found.levels)


def decide_all(verdicts: Sequence[Verdict]) -> Verdict:
    """Return `held` where it is held at every level, `not held` where it is not at one."""
    if all(one == "held" for one in verdicts):
        return "held"
    return "not held" if "not held" in verdicts else "undecided"


def judge_quoted(claim: Claim, folder: Path = RESULTS) -> Judged:
    """Return the verdict of a claim against a quoted figure."""
    side, sign = (claim.first, 1) if claim.first else (claim.second, -1)
    on_standard = claim.split == "standard"
    measured = _measure_seeds if on_standard else _measure_splits
    found, numbers = measured(claim, side, folder)
    if found is None:
        return Judged(claim, "undecided", claim.known or numbers)
    low, high = sorted((sign * found.low, sign * found.high))
    found = Interval(sign * found.estimate, low, high)
    numbers += f", against {claim.quoted} {claim.quoted_value:.2f} (quoted)"
    return Judged(claim, decide(found), numbers, found)


def _measure_splits(claim: Claim, side: str, folder: Path) -> tuple[Interval | None, str]:
    """Return how far the mean of random splits is above the quoted figure."""
    file = folder / "splits.json"
    splits = json.loads(file.read_text()) if file.exists() else {}
    values = np.array(splits.get(claim.corpus, {}).get(side, {}).get(claim.metric, []))
    if len(values) < len(SEEDS):
        return None, f"{len(values)} splits measured"
    error = scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    gap = float(values.mean() - claim.quoted_value) / 100
    numbers = f"{values.mean():.2f} ± {values.std(ddof=1):.2f}, {len(values)} random splits"
    return Interval(gap, gap - error / 100, gap + error / 100), numbers


def _measure_seeds(claim: Claim, side: str, folder: Path) -> tuple[Interval | None, str]:
    """Return how far the mean of the seeds on the standard split is above the quoted figure."""
    figures = load_figures(claim.corpus, side, folder)
    each = np.empty((0, 0)) if figures is None else figures[claim.metric]
    if len(each) < len(SEEDS):
        return None, f"{len(each)} seeds measured"
    found = compare_means(each.mean(axis=0), np.full(each.shape[1], claim.quoted_value / 100))
    return found, f"{describe_seeds(each)}, standard split"


def describe_seeds(each: NDArray[np.float64]) -> str:
    """Return mean and standard deviation over seeds, in percent, of figures (seeds, documents)."""
    means = 100 * each.mean(axis=1)
    if len(means) == 1:
        return f"{means[0]:.2f} (one training)"
    return f"{means.mean():.2f} ± {means.std(ddof=1):.2f}"


def decide(difference: Interval) -> Verdict:
    """Return `held` above 0, `not held` below 0, else `undecided`."""
    if difference.low > 0:
        return "held"
    return "not held" if difference.high < 0 else "undecided"


HEAD = """# Claims of the papers

Generated by `python bench/claims.py page` from `bench/claims.toml` and
`bench/results/claims`. Do not edit.

Each row is one claim of a paper on one corpus. *Difference* is the first system minus the second in
points of the metric, with the 95 % interval of a paired bootstrap over test documents. Both sides
have three trainings; *numbers* gives their mean and standard deviation. They differ in their seed;
those of `parabel` in random numbers that cannot be fixed. `knn` is deterministic, so one training
is all there is. `held`: the interval lies above 0. `not held`: below 0. `undecided`: neither, or
for the reason given: a system that loses while its training was cut decides nothing. Claims against
quoted figures use the 95 % interval of the mean of random splits, or that of the documents of the
standard split, as the row says. Nothing was chosen on test documents.

Where a row says *needs a GPU* or *a CPU*, it was not measured: the command of that number below its
table does it. What the commands need, step by step: [lab notes](../lab/papers.md).
"""
COLUMNS = ("claim", "corpus", "metric", "numbers", "difference", "verdict")


GPU = ("bench/papers.py ", "lightattention")  # commands with these train networks over words


def format_page(judged: Sequence[Judged]) -> str:
    """Return the page: a table for each paper."""
    parts = [HEAD, _format_summary(judged)]
    for paper, page in PAPERS.items():
        rows = [one for one in judged if one.claim.paper == paper]
        used = {c for one in rows for c in (one.claim.command, one.claim.decided_by) if c}
        commands = {command: number for number, command in enumerate(sorted(used), start=1)}
        parts.append(f"## {paper}\n\nThe system: [`{page}`]({page}.md).\n")
        parts.append(f"| {' | '.join(COLUMNS)} |\n|---|---|---|---|---:|---|")
        parts[-1] += "".join(f"\n{_format_row(one, commands)}" for one in rows) + "\n"
        listed = "\n".join(f"{n}. `{command}`" for command, n in commands.items())
        parts.append(f"Commands:\n\n{listed}\n")
    return "\n".join(parts)


def _format_summary(judged: Sequence[Judged]) -> str:
    """Return how many claims have each verdict, and why claims are undecided."""
    counts = {v: sum(one.verdict == v for one in judged) for v in VERDICTS}
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    left = [find_missing(one) for one in judged if one.verdict == "undecided"]
    gpu, clear = sum(map(needs_gpu, left)), left.count("")
    others = len(left) - gpu - clear
    reasons = f"{gpu} need a GPU, {others} a CPU, and the interval of {clear} contains 0"
    return f"{len(judged)} claims: {listed}. Of the undecided ones {reasons}.\n"


def find_missing(one: Judged) -> str:
    """Return the command that could decide an undecided claim; empty where nothing is missing."""
    if one.verdict != "undecided":
        return ""
    return one.claim.decided_by or ("" if one.interval else one.claim.command)


def needs_gpu(command: str) -> bool:
    return any(part in command for part in GPU)


def _format_row(one: Judged, commands: Mapping[str, int]) -> str:
    claim, gap = one.claim, ""
    if one.interval:
        estimate, low, high = (
            100 * v for v in (one.interval.estimate, one.interval.low, one.interval.high)
        )
        gap = f"{estimate:+.2f} [{low:+.2f}, {high:+.2f}]"
    reason = claim.reason if one.interval is None else claim.note
    if missing := find_missing(one):
        needs = "needs a GPU" if needs_gpu(missing) else "needs a CPU"
        reason = f"{reason}; {needs}: command {commands[missing]}".removeprefix("; ")
    numbers = ". ".join(filter(None, (one.numbers, reason)))
    cells = (claim.text, claim.corpus, claim.metric, numbers, gap, one.verdict)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["measure", "page"])
    parser.add_argument("corpora", nargs="*")
    given = parser.parse_args()
    sides, claims = read_plan(ROOT / "bench" / "claims.toml")
    if given.step == "measure":
        keep_measuring(sides, claims, given.corpora)
    else:
        write_text(PAGE, format_page([judge(claim, RESULTS, sides) for claim in claims]))


if __name__ == "__main__":
    main()
