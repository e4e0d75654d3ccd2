"""Tables 2 to 5, Figure 5 and the claims of paper 000, of the result files of bench/levelwise.py.

    python bench/levelwise_tables.py out [--paper]

Writes tables.md, figure5-SEED.png and rare-SEED.png into `out`; the tables are printed too. With
`--paper` (MEDLINE + MeSH) the paper's figures stand beside ours, after a slash.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RANKED = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5")
MICRO, MACRO = ("MiP", "MiR", "MiF"), ("MaP", "MaR", "MaF")
BLOCKS = {  # the inputs of Tables 2 and 3 -> our row and pass
    "words": ("words", 0),
    "words, keywords": ("full", 0),
    "words, keywords, levels": ("full", 1),
}
# Of each MeSH level, for the three blocks: precision, recall, F of top K, and then of OFO.
TABLE_2 = """
23.32 95.68 37.50 31.45 92.56 46.95 39.52 86.75 54.30 55.83 84.77 67.32 72.45 79.56 75.84 81.01 73.93 77.33
29.32 65.17 40.44 36.53 66.72 47.21 43.64 63.27 51.65 90.79 37.57 53.15 88.10 43.03 57.82 69.95 56.05 62.23
22.96 38.32 28.72 31.56 58.53 41.00 40.65 55.33 46.87 79.82 35.10 48.75 52.90 51.09 51.98 68.63 43.70 53.40
20.63 37.21 26.54 29.36 46.31 35.94 38.45 52.31 44.32 76.80 37.65 50.53 76.80 37.65 50.53 63.62 46.76 53.90
20.15 49.85 28.70 31.25 52.75 39.24 40.33 51.14 45.09 46.45 62.31 53.22 84.81 45.11 58.90 73.31 53.07 61.57
22.18 72.24 33.93 32.88 74.43 45.61 41.94 69.45 52.30 55.40 73.42 63.15 69.43 69.18 69.30 76.64 65.88 70.85
20.29 83.64 32.66 33.43 86.48 48.21 45.38 77.36 57.20 66.63 82.34 73.66 77.19 80.63 78.87 84.94 77.30 80.94
"""  # noqa: E501
TABLE_3 = """
23.32 96.26 37.55 33.54 91.35 49.07 42.33 87.77 57.11 59.96 94.83 73.47 92.56 70.23 79.87 80.53 85.53 82.96
29.32 65.17 40.44 37.69 68.27 48.57 45.46 62.37 52.59 56.18 76.03 64.61 85.33 55.80 67.48 82.52 64.59 72.46
22.96 47.00 30.85 33.84 61.33 43.61 41.46 58.34 48.47 81.40 43.99 57.11 82.88 48.79 61.42 70.48 60.06 64.85
20.63 44.18 28.13 32.63 48.94 39.15 38.99 52.35 46.05 36.84 72.64 48.89 80.68 52.16 63.36 75.90 56.80 64.97
20.15 56.18 29.66 34.52 55.77 42.64 43.49 52.35 44.69 48.95 81.53 61.12 61.53 77.55 68.62 84.52 65.96 74.10
22.18 75.90 34.32 33.92 72.94 42.64 43.49 70.44 53.78 69.94 48.65 57.38 69.44 86.25 79.63 86.46 77.32 81.64
20.29 85.73 32.81 36.34 82.88 46.30 49.34 78.63 60.63 78.73 65.01 71.22 76.97 92.67 84.09 92.09 83.58 87.63
"""  # noqa: E501
TABLE_4 = {  # our row -> the paper's name, MaP, MaR, MaF
    "sampling": ("Sampling", 49.56, 51.21, 50.37),
    "max": ("Max pooling", 51.56, 65.52, 57.70),
    "label": ("Dynamic pooling & label-based", 61.20, 57.21, 59.14),
    "full": ("Dynamic pooling & level-based", 53.22, 70.65, 60.77),
}
TABLE_5 = "96.52 | 83.72 | 67.89 | 97.48 | 92.32 | 87.52"

Results = Mapping[str, Sequence[Mapping[str, Any]]]  # by row, a result a seed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--paper", action="store_true")
    arguments = parser.parse_args()
    results = read_results(arguments.out)
    text = "\n\n".join(
        [
            level_table(results, MICRO, TABLE_2 if arguments.paper else ""),
            level_table(results, MACRO, TABLE_3 if arguments.paper else ""),
            merge_table(results, arguments.paper),
            ranking_table(results, arguments.paper),
            cost_table(results),
            claims_list(results),
        ]
    )
    (arguments.out / "tables.md").write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")
    for result in results.get("full", ()):
        draw_streams(result["curves"], arguments.out / f"figure5-{result['seed']}.png")
        draw_rare(result["passes"], arguments.out / f"rare-{result['seed']}.png")


def read_results(out: Path) -> Results:
    """The result files below a folder, by row."""
    by_row: dict[str, list[Any]] = {}
    for path in sorted(out.glob("*-*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        by_row.setdefault(result["row"], []).append(result)
    return by_row


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> str:
    """The mean, and the range of several seeds."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ---------------------------------------------------------------------------------------- tables


def level_table(results: Results, names: Sequence[str], paper: str) -> str:
    """Table 2 (micro) or 3 (macro): a level with top K and with OFO, three blocks of inputs."""
    title = "Table 2, micro" if names == MICRO else "Table 3, macro"
    blocks = {t: found for t, place in BLOCKS.items() if (found := levels_of(results, *place))}
    if not blocks:
        return f"{title}: no row `words` or `full`"
    theirs = [list(map(float, line.split())) for line in paper.split("\n") if line]
    first = next(iter(blocks.values()))[0]
    rows = []
    for number, level in enumerate(level for level in first if first[level]["OFO"]):
        for half, kind in enumerate(("top K", "OFO")):
            cells = [f"level {level}", f"top {first[level]['K']}" if half == 0 else kind]
            for title_of in blocks:
                ours = [mean([t[level][kind][name] for t in blocks[title_of]]) for name in names]
                quoted = [""] * 3
                if number < len(theirs) and level.isdigit():
                    start = 9 * half + 3 * list(BLOCKS).index(title_of)
                    line = theirs[int(level) - 1]
                    quoted = [f" / {value:.2f}" for value in line[start : start + 3]]
                cells += [f"{own:.2f}{their}" for own, their in zip(ours, quoted, strict=True)]
            rows.append(cells)
    head = ["", "", *(f"{title_of}: {name}" for title_of in blocks for name in names)]
    return f"{title} measures at each level\n\n" + table(head, rows)


def levels_of(results: Results, row: str, number: int) -> list[Mapping[str, Any]]:
    """For each seed of a row, the figures of each level after a pass (0 or 1)."""
    runs = [r["passes"] for r in results.get(row, ())]
    return [passes[number]["levels"] for passes in runs if len(passes) > number]


def merge_table(results: Results, paper: bool) -> str:
    """Table 4 and the other ways to merge."""
    rows = []
    for row, runs in results.items():
        cells = [spread([run["test"][name] for run in runs]) for name in (*MACRO, *MICRO)]
        dev = spread([run["dev"]["MiF"] for run in runs]) if runs[0]["dev"] else ""
        name, *quoted = TABLE_4.get(row, ("",))
        theirs = [f"{name}: {', '.join(map(str, quoted))}" if quoted else ""] if paper else []
        rows.append([row, *cells, dev, *theirs])
    head = ["row", *MACRO, *MICRO, "MiF on dev", *(["paper's MaP, MaR, MaF"] if paper else [])]
    return "Table 4, the merged sets\n\n" + table(head, rows)


def ranking_table(results: Results, paper: bool) -> str:
    rows = [
        [row, *(spread([run["test"][name] for run in runs]) for name in RANKED)]
        for row, runs in results.items()
    ]
    text = "Table 5, the ranking\n\n" + table(["row", *RANKED], rows)
    if paper:
        text += (
            f"\n\nThe paper, on AmazonCat-13K: {TABLE_5}. Its nDCG@1 differs from its P@1, which "
            "its own definition forbids."
        )
    return text


def cost_table(results: Results) -> str:
    """Seconds of training in all and by level, memory, speed."""
    rows = []
    for row, runs in results.items():
        run = runs[0]
        seconds, shares = run["seconds"], run["share of a step"]
        networks = sum(value for name, value in seconds.items() if name.startswith("pass "))
        levels = ", ".join(f"{m}: {share * networks:.0f}" for m, share in shares.items())
        memory = "" if run["memory GiB"] is None else f"{run['memory GiB']:.1f}"
        pointer = f"{seconds.get('pointer', 0):.0f}"
        speed = f"{run['documents a second']:,}"
        rows.append([row, f"{seconds['in all']:.0f}", levels, pointer, memory, speed])
    head = ["row", "seconds in all", "of which each level", "pointer", "GiB", "documents a second"]
    machine = next(iter(results.values()))[0]["hardware"] if results else ""
    return f"Training and prediction, first seed, {machine}\n\n" + table(head, rows)


# ---------------------------------------------------------------------------------------- claims


def claims_list(results: Results) -> str:
    """Every claim of the paper, and ours, held or not held, with the numbers."""
    lines = [
        *by_level_claim("OFO beats the best fixed K at every level", ofo_against_k(results)),
        *by_level_claim("keywords add at every level", blocks_against(results, 0, 1)),
        *by_level_claim("neighbour levels add at every level", blocks_against(results, 1, 2)),
        *test_claim(results, "dynamic pooling beats max pooling", "MaF", "full", "max"),
        *test_claim(results, "the pointer generator beats sampling", "MaF", "full", "sampling"),
        *test_claim(results, "level-based recalls more than label-based", "MaR", "full", "label"),
        *test_claim(results, "label-based is more precise", "MaP", "label", "full"),
        *test_claim(results, "(ours) levels beat one flat network", "MaF", "full", "flat"),
        *test_claim(results, "(ours) levels beat one flat network", "MiF", "full", "flat"),
        *test_claim(results, "(ours) the pointer beats OFO's union", "MiF", "full", "threshold"),
        *test_claim(results, "(ours) both passes beat the second", "MiF", "averaged", "full"),
        *test_claim(results, "(ours) and here too", "MiF", "attentive", "attentive-last"),
        *test_claim(results, "(ours) attention beats pooling", "MiF", "attention", "full"),
        *test_claim(results, "(ours) so do its levels", "MiF", "attentive", "attentive-flat"),
        *rare_sentence(results),
    ]
    return "Claims\n\n" + "\n".join(lines)


def verdict(held: bool) -> str:
    return "**held**" if held else "**not held**"


def test_claim(results: Results, claim: str, metric: str, better: str, worse: str) -> list[str]:
    if better not in results or worse not in results:
        return []
    one, other = ([run["test"][metric] for run in results[row]] for row in (better, worse))
    held = verdict(mean(one) > mean(other))
    said = f"{metric} {spread(one)} of `{better}`, {spread(other)} of `{worse}`"
    return [f"- {claim}: {held}: {said}"]


Pair = tuple[str, float, float]  # level, F that should be lower, F that should be higher


def by_level_claim(claim: str, pairs: Sequence[Pair]) -> list[str]:
    if not pairs:
        return []
    at = [level for level, low, high in pairs if high > low]
    where = "" if len(at) == len(pairs) else f" (at {len(at)} of {len(pairs)})"
    said = ", ".join(f"level {level} {low:.2f} -> {high:.2f}" for level, low, high in pairs)
    return [f"- {claim}: {verdict(len(at) == len(pairs))}{where}: MaF {said}"]


def ofo_against_k(results: Results) -> list[Pair]:
    runs = levels_of(results, "full", 1)
    return _pairs(runs, "top K", runs, "OFO")


def blocks_against(results: Results, one: int, other: int) -> list[Pair]:
    low, high = (levels_of(results, *list(BLOCKS.values())[number]) for number in (one, other))
    return _pairs(low, "OFO", high, "OFO")


def _pairs(
    low: Sequence[Mapping[str, Any]], low_kind: str, high: Sequence[Mapping[str, Any]], kind: str
) -> list[Pair]:
    if not low or not high:
        return []
    levels = [level for level in high[0] if level.isdigit() and high[0][level]["OFO"]]
    return [
        (
            level,
            mean([run[level][low_kind]["MaF"] for run in low]),
            mean([run[level][kind]["MaF"] for run in high]),
        )
        for level in levels
    ]


def rare_sentence(results: Results) -> list[str]:
    """The paper's motivation: labels that few training documents have."""
    runs = [run["passes"] for run in results.get("full", ()) if len(run["passes"]) > 1]
    if not runs:
        return []
    without, with_levels = ([rare_total(passes[n]["rare"]) for passes in runs] for n in (0, 1))
    recall = [mean([one["recall"] for one in part]) for part in (without, with_levels)]
    precision = [mean([one["precision"] for one in part]) for part in (without, with_levels)]
    some = without[0]
    return [
        f"- neighbour levels help rare labels: {verdict(recall[1] > recall[0])}: of the "
        f"{some['true']:,.0f} test occurrences of {some['labels']:,.0f} labels with 10 to 50 "
        f"training documents, {recall[0]:.1f} % are found without neighbour levels and "
        f"{recall[1]:.1f} % with them (precision {precision[0]:.1f} and {precision[1]:.1f} %)"
    ]


def rare_total(bins: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    total = {name: sum(one[name] for one in bins.values()) for name in next(iter(bins.values()))}
    recall = 100 * total["hit"] / max(1, total["true"])
    return {**total, "recall": recall, "precision": 100 * total["hit"] / max(1, total["predicted"])}


# --------------------------------------------------------------------------------------- figures


def draw_streams(curves: Mapping[str, Any], path: Path) -> None:
    """Figure 5: macro precision, recall and F over the stream, a panel a level."""
    pyplot = plotting()
    figure, axes = pyplot.subplots(1, len(curves), figsize=(3 * len(curves), 3), squeeze=False)
    for axis, (level, curve) in zip(axes[0], curves.items(), strict=True):
        for name in MACRO:
            axis.plot(curve["documents"], curve[name], label=name)
        axis.set(title=f"level {level}", xlabel="documents", ylim=(0, 1))
    axes[0, 0].legend()
    save(pyplot, figure, path)


def draw_rare(passes: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Recall of rare labels by training documents, without and with neighbour levels."""
    pyplot = plotting()
    figure, axis = pyplot.subplots(figsize=(6, 3))
    names = ("without neighbour levels", "with neighbour levels")
    for number, (one, name) in enumerate(zip(passes, names, strict=False)):
        bins = one["rare"]
        heights = [100 * b["hit"] / max(1, b["true"]) for b in bins.values()]
        places = [place + 0.4 * number - 0.2 for place in range(len(bins))]
        axis.bar(places, heights, width=0.38, label=name)
    axis.set_xticks(range(len(passes[0]["rare"])), list(passes[0]["rare"]))
    axis.set(xlabel="training documents of a label", ylabel="recall, %")
    axis.legend()
    save(pyplot, figure, path)


def plotting() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(pyplot: Any, figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
