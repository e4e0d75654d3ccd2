"""The search of `ontodex tune` beside optuna: the same system, time and objective.

    python bench/tune_optuna.py sample WORK --budget 60s
    python bench/tune_optuna.py medline WORK --documents 2500 --budget 2m --seeds 1 2 3

needs optuna, which ontodex does not. Dev has 500 documents; the objective is nDCG@5 on it of the
system that has learned all training documents. `halving` is `tune`; `tpe` is optuna's default
sampler over the same alternatives, from the default settings; `tpe, cost` draws `cost` from 0.05 to
20 on a logarithmic scale. The budget is processor time of one core, and all of it is for the
search. A best setting that was seen on fewer documents alone is trained on all after it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from auto import count_processor_time, read_parts
from ontodex.config import Table
from ontodex.io.durations import parse_duration
from ontodex.models.auto.budget import Budget
from ontodex.models.auto.candidates import list_alternatives
from ontodex.models.auto.halving import halve, list_configurations
from ontodex.models.auto.rungs import Rung, make_rungs
from ontodex.models.auto.search import Search
from ontodex.models.auto.trials import Trial, TrialRunner
from ontodex.runs.languages import find_corpus_languages
from ontodex.types import Corpus, LabelSpace

_DEV = 500
_COST = (0.05, 20.0)
Alternatives = dict[str, list[Any]]


def search_by_halving(
    runner: TrialRunner, rungs: list[Rung], seconds: float, seed: int, space: Alternatives
) -> list[Trial]:
    pairs = [(name, value) for name, values in space.items() for value in values[1:]]
    search = Search(runner, rungs, Budget(seconds), documents=0, final_fits=0)
    best = halve(search, "linear", list_configurations({}, tuple(pairs), seed=seed))
    return [*search.trials, runner.find("linear", best.settings, rungs[-1]) or best]


def search_by_optuna(*, is_cost_drawn: bool) -> Callable[..., list[Trial]]:
    optuna: Any = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def search(
        runner: TrialRunner, rungs: list[Rung], seconds: float, seed: int, space: Alternatives
    ) -> list[Trial]:
        budget, found = Budget(seconds), list[Trial]()
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)
        )
        first = dict.fromkeys(space, 0) | ({"cost": 1.0} if is_cost_drawn else {})
        study.enqueue_trial(first)
        while not found or budget.left > max(trial.seconds for trial in found):
            asked = study.ask()
            settings: Table = {}
            for name, values in space.items():
                if name == "cost" and is_cost_drawn:
                    settings[name] = asked.suggest_float(name, *_COST, log=True)
                elif number := asked.suggest_categorical(name, list(range(len(values)))):
                    settings[name] = values[number]
            trial = runner.find("linear", settings, rungs[-1])
            trial = trial or runner.run("linear", settings, rungs[-1])
            study.tell(asked, trial.ndcg)
            found.append(trial)
        return [*found, max(found, key=lambda trial: trial.ndcg)]

    return search


def read_documents(name: str, folder: Path, documents: int) -> tuple[Corpus, Corpus, Any]:
    """Return train, a dev of 500 documents, and the ontology; the test part is left alone."""
    train, dev, _, ontology = read_parts(name, folder)
    whole = train.join(dev)
    order = np.random.default_rng(1).permutation(len(whole))
    last = documents or len(whole)
    return whole.select(order[_DEV:last]), whole.select(order[:_DEV]), ontology


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["sample", "medline"])
    parser.add_argument("work", type=Path)
    parser.add_argument("--documents", type=int, default=0, help="dev among them; 0 = all")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    count_processor_time()
    seconds = parse_duration(options.budget)
    train, dev, ontology = read_documents(options.name, options.work / "data", options.documents)
    languages = find_corpus_languages((), train, ontology)
    labels = LabelSpace.of(train, ontology)
    space: Alternatives = {}
    for name, value in list_alternatives(
        "linear", train.kind, languages=languages, n_fields=len(train.field_names())
    ):
        space.setdefault(name, [None]).append(value)
    print(f"{len(train):,} to learn, {len(dev):,} dev; {space}")
    methods = {
        "halving": search_by_halving,
        "tpe": search_by_optuna(is_cost_drawn=False),
        "tpe, cost": search_by_optuna(is_cost_drawn=True),
    }
    print("| search | nDCG@5 on dev | of each seed | trials | settings |\n|---|---|---|---|---|")
    for method, search in methods.items():
        bests, counts = list[Trial](), list[int]()
        for seed in options.seeds:
            rungs = make_rungs(train, dev, labels, folds=0, seed=seed)
            folder = options.work / f"{method.replace(', ', '-')}-{seed}"
            runner = TrialRunner(folder, labels, device="cpu", depth=10, languages=languages)
            *tried, best = search(runner, rungs, seconds, seed, space)
            found = runner.find("linear", best.settings, rungs[-1])
            bests.append(found or runner.run("linear", best.settings, rungs[-1]))
            counts.append(len(tried))
            sys.stderr.write(f"{method}, seed {seed}: {bests[-1]}\n")
        scores = [100 * trial.ndcg for trial in bests]
        each = ", ".join(f"{score:.2f}" for score in scores)
        print(f"| {method} | {statistics.fmean(scores):.2f} | {each} | "
              f"{', '.join(map(str, counts))} | {bests[0].name} |")  # fmt: skip


if __name__ == "__main__":
    main()
