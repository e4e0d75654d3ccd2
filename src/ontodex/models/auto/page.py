"""auto.html: what was tried, what each trial gave, what was chosen and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ontodex.config import Table
from ontodex.evaluation.page import escape_text, make_html_page, make_table
from ontodex.io.durations import format_clock
from ontodex.models.auto.record import describe_choice, name_candidate
from ontodex.models.auto.trials import Trial


def make_page(record: Table) -> str:
    """Return the page as HTML."""
    body = [
        "<h1>What was tried, and what was chosen</h1>",
        *(f"<p>{escape_text(line[0].upper() + line[1:])}.</p>" for line in describe_choice(record)),
        *(f"<p>{escape_text(remark)}.</p>" for remark in record["remarks"]),
        *_candidates(record),
        *_trials(record["trials"]),
        *_left_out(record),
    ]
    return make_html_page("What was tried", body)


def make_tuning_page(trials: Sequence[Trial], best: Trial) -> str:
    """Return the page about the settings that were tried for one system."""
    body = [
        "<h1>Settings that were tried</h1>",
        f"<p>Chosen: {escape_text(best.name)}, nDCG@5 {_percent(best.ndcg)}, F1@5 "
        f"{_percent(best.f1)} ({escape_text(best.rung)}).</p>",
        *_trials([trial.to_json() for trial in trials]),
    ]
    return make_html_page("Settings that were tried", body)


def _candidates(record: Table) -> Iterator[str]:
    yield "<h2>Candidates for the consensus</h2>"
    yield (
        "<p>Each system with its best settings, trained on all documents but the ones it ranked. "
        "A member is kept if it adds at least 0.05 points of nDCG@5; its weight was chosen with "
        "it.</p>"
    )
    rows = []
    for one in record["candidates"]:
        added = f"{100 * one['adds']:.2f}" if one["weight"] > 0 else ""
        slow = "too slow" if one["system"] in record["too_slow"] else "left out"
        rows.append(
            [
                name_candidate(one),
                f"{one['weight']:g}" if one["weight"] > 0 else slow,
                _percent(one["ndcg"]),
                _percent(one["f1"]),
                added,
                f"{one['milliseconds']:.1f}",
            ]
        )
    rows.append(["consensus", "", _percent(record["ndcg"]), _percent(record["f1"]), "", ""])
    head = ["system", "weight", "nDCG@5", "F1@5", "adds", "ms a document"]
    yield from make_table(head, rows)


def _trials(trials: Sequence[Table]) -> Iterator[str]:
    yield "<h2>All trials, in order</h2>"
    yield (
        "<p>Small trials show what a setting changes and what a system costs. Compare only trials "
        "on the same documents.</p>"
    )
    rows: list[Sequence[str]] = []
    for trial in trials:
        figures = [_percent(trial["ndcg"]), _percent(trial["f1"])]
        if trial["failure"]:
            figures = ["failed", ""]
        seconds = trial["fit_seconds"] + trial["rank_seconds"]
        rows.append([name_candidate(trial), trial["rung"], *figures, f"{seconds:.1f}"])
    yield from make_table(["system", "learned from", "nDCG@5", "F1@5", "seconds"], rows, n_text=2)


def _left_out(record: Table) -> Iterator[str]:
    if not record["left_out"]:
        return
    yield "<h2>Not trained in full</h2>"
    yield from make_table(["system", "why"], list(record["left_out"].items()), n_text=2)
    budget = format_clock(record["budget"])
    yield f'<p class="quiet">The budget was {budget}. More time tries more.</p>'


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"
