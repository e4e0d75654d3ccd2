"""Run the campaigns one after another and print a table of their figures.

    make attack                                        all campaigns, ten minutes
    python -m attack --seconds 28800 --seed 7          a night
    python -m attack --only readers --seconds 60

The exit status is 1 when a campaign found something. Each finding is a file under --out (default
attack-findings/CAMPAIGN/), with a description beside it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

from attack.campaign import Campaign, Finding, Result

# Each campaign with its part of the time.
CAMPAIGNS = {
    "readers": 4,
    "run_folders": 4,
    "api": 4,
    "http_abuse": 1,
    "kills": 4,
    "resources": 2,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen campaigns; return 1 if one of them found something."""
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="time for all campaigns")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(CAMPAIGNS), default=list(CAMPAIGNS))
    parser.add_argument("--out", type=Path, default=Path("attack-findings"))
    options = parser.parse_args(arguments)
    total = sum(CAMPAIGNS[name] for name in options.only)
    results = {}
    for name in options.only:
        seconds = options.seconds * CAMPAIGNS[name] / total
        start = time.monotonic()
        result = run_campaign(name, seconds, options.seed, options.out / name)
        results[name] = (result, time.monotonic() - start)
        _print_findings(name, result)
    _print_table(results)
    return int(any(result.findings for result, _ in results.values()))


def run_campaign(name: str, seconds: float, seed: int, out: Path) -> Result:
    """Run one campaign; one that fails itself, or tries nothing, is a finding."""
    try:
        run: Campaign = importlib.import_module(f"attack.{name}").run
        result = run(seconds, seed, out)
        if not result.tried:
            result.add(Finding(f"{name}: nothing", "the campaign tried no input"), out)
        return result
    except Exception as error:
        result = Result()
        text = traceback.format_exc().encode()
        what = f"the campaign itself failed with {type(error).__name__}: {error}"
        result.add(Finding(f"{name}: failed", what, text, ".txt"), out)
        return result


def _print_findings(name: str, result: Result) -> None:
    for note, text in result.notes.items():
        print(f"{name}: {note}: {text}", flush=True)
    for finding in result.findings:
        print(f"{name}: FOUND {finding.key}: {finding.what}", file=sys.stderr, flush=True)


def _print_table(results: dict[str, tuple[Result, float]]) -> None:
    print(f"{'campaign':<12} {'inputs tried':>12} {'findings':>9} {'worst ratio':>12} {'s':>7}")
    for name, (result, seconds) in results.items():
        worst = "" if result.worst_ratio is None else f"{result.worst_ratio:.1f}"
        counts = f"{result.tried:>12,} {len(result.findings):>9,}"
        print(f"{name:<12} {counts} {worst:>12} {seconds:>7.0f}")


if __name__ == "__main__":
    sys.exit(main())
