"""Print Tables 2 to 5, Figure 5 and the claims of Deep Level-wise XMLC from result files.

    python bench/levelwise_tables.py out [--paper] [--beside FILE.json]

Prints the tables and writes tables.md and, with matplotlib, figure5-SEED.png and rare-SEED.png into
`out`. With `--paper` (MEDLINE + MeSH) the numbers of the paper follow ours after a slash.
`--beside` names a file with results of other systems on the same documents, in percent, for Table 4
and the claims: {"parabel, OFO": {"MiF": 70.1, "MaF": 69.2}, ...}
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from levelwise_claims import list_claims
from levelwise_results import (
    BLOCKS,
    DEFAULT_BLOCKS,
    MACRO,
    MICRO,
    RARE_ROWS,
    Beside,
    Bins,
    Block,
    Results,
    find_stream_name,
    format_origin,
    format_spread,
    format_title,
    group_by_seed,
    mean,
    read_results,
    select_blocks,
)

RANKED = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5")
KINDS = ("top K", "OFO")
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
# Of each level of AmazonCat-13K: precision, recall, F of top K, and then of OFO.
TABLE_2_AMAZON = """
72.21 99.56 83.71 94.17 92.24 93.19
48.57 97.42 64.82 61.49 99.55 76.02
30.43 87.47 45.15 32.51 99.86 49.05
20.99 72.03 32.51 21.34 99.92 35.17
20.37 69.24 31.48 20.88 99.91 34.54
"""
TABLE_4 = {  # our row -> the paper's name, MaP, MaR, MaF
    "sampling": ("Sampling", 49.56, 51.21, 50.37),
    "max": ("Max pooling", 51.56, 65.52, 57.70),
    "label": ("Dynamic pooling & label-based", 61.20, 57.21, 59.14),
    "full": ("Dynamic pooling & level-based", 53.22, 70.65, 60.77),
}
TABLE_4_EARLIER = {  # MaP, MaR, MaF of the systems it compares with
    "MTIDEF": (49.39, 51.40, 50.37),
    "BC_D2V-TFIDF": (47.41, 46.33, 46.86),
    "MeSHRanker": (53.64, 54.13, 53.89),
    "MeSHLabeler": (54.50, 51.72, 50.54),
    "DeepMesh": (53.80, 55.05, 54.42),
    "MeSH Now": (51.28, 53.72, 52.47),
}
TABLE_5 = {  # on AmazonCat-13K
    "XML-CNN": (95.06, 79.86, 63.91, 95.06, 89.48, 87.06),
    "Deep Level-wise XMLC": (96.52, 83.72, 67.89, 97.48, 92.32, 87.52),
}

Figures = tuple[float, float, float]  # precision, recall, F


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--beside", type=Path)
    arguments = parser.parse_args(given)
    out, paper = arguments.out, arguments.paper
    results = read_results(out)
    beside = json.loads(arguments.beside.read_text("utf-8")) if arguments.beside else {}
    text = tables(results, paper, beside)
    (out / "tables.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    if find_spec("matplotlib") is None:
        sys.stdout.write("No figures: matplotlib is not installed.\n")
        return
    for result in results.get("full", ()):
        draw_streams(result["curves"], out / f"figure5-{result['seed']}.png")
    without, with_levels = (group_by_seed(results, row) for row in RARE_ROWS)
    for seed in without.keys() & with_levels.keys():
        draw_rare(without[seed]["rare"], with_levels[seed]["rare"], out / f"rare-{seed}.png")


def tables(results: Results, paper: bool, beside: Beside) -> str:
    """Return all tables and the claims as Markdown."""
    of_default = [make_level_table(results, names, "", DEFAULT_BLOCKS) for names in (MICRO, MACRO)]
    parts = [
        make_level_table(results, MICRO, TABLE_2 if paper else ""),
        make_amazon_table() if paper else "",
        make_level_table(results, MACRO, TABLE_3 if paper else ""),
        *of_default,
        make_merge_table(results, paper, beside),
        make_ranking_table(results, paper),
        make_cost_table(results),
        list_claims(results, beside),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def make_level_table(
    results: Results, names: Sequence[str], paper: str, wanted: Sequence[Block] = BLOCKS
) -> str:
    """Return Table 2 (micro) or 3 (macro): each level with top K and with OFO, by blocks of inputs.

    Empty where no block was measured.
    """
    title, k = ("Table 2, micro", "K") if names == MICRO else ("Table 3, macro", "K macro")
    blocks = select_blocks(results, wanted)
    if not blocks:
        return ""
    whose = ", the default" * (wanted == DEFAULT_BLOCKS)
    theirs = parse_quoted_levels(paper)
    first = next(run for runs in blocks.values() for run in runs.values())
    rows = []
    for level, about in first.items():
        if not about["OFO"]:
            continue
        for kind in KINDS:
            cells = [f"level {level}", f"{about['documents']:,}", kind]
            for block, seeds in blocks.items():
                runs = list(seeds.values())
                quoted = theirs.get((level, kind, format_title(block, "keywords")))
                chosen = format_k([run[level][k] for run in runs]) + (" / 5" if quoted else "")
                cells.append(chosen if kind == "top K" else "")
                for place, name in enumerate(names):
                    own = f"{mean([run[level][kind][name] for run in runs]):.2f}"
                    cells.append(f"{own} / {quoted[place]:.2f}" if quoted else own)
            rows.append(cells)
    stream = find_stream_name(results)
    head = ["", "documents", ""]
    head += [f"{format_title(block, stream)}: {name}" for block in blocks for name in ("K", *names)]
    origins = "; ".join(
        f"{format_title(b, stream)}: {format_origin(runs, b[1])}" for b, runs in blocks.items()
    )
    text = (
        f"## {title} measures at each level{whose}\n\n{table(head, rows)}\n\n"
        f"{describe_level_measures(stream)} Rows: {origins}."
    )
    return text + (f"\n\n{describe_quoted_levels(theirs, stream)}" if paper else "")


def describe_level_measures(stream: str) -> str:
    phrases = " Phrases are extracted from the text; they replace authors' keywords."
    return (
        "Documents: test documents with a label at the level. K is tuned on dev, in each block, by "
        "the F of the table. OFO thresholds are learned from training documents; one logit shift "
        "per level is tuned on dev in the same way."
    ) + phrases * (stream == "phrases")


def describe_quoted_levels(theirs: Mapping[tuple[str, str, str], Figures], stream: str) -> str:
    """Describe the numbers of the paper in Table 2 or 3."""
    cells = {
        f"level {lv}, {kind}, {block}": figures for (lv, kind, block), figures in theirs.items()
    }
    own = ", ours are phrases" if stream == "phrases" else ""
    text = (
        "After the slash: the paper, 102,167 test documents that have labels at all seven levels, "
        f"K = 5; its keywords are the authors'{own}. "
    )
    before: dict[Figures, str] = {}
    for name, figures in cells.items():
        if figures in before:
            text += f"It has the same three numbers at {before[figures]} and at {name}. "
        before.setdefault(figures, name)
    return text + list_contradictions(cells)


def list_contradictions(cells: Mapping[str, Figures]) -> str:
    """List quoted F that contradict the quoted P and R, with the F that follows from these."""
    found = []
    for name, (p, r, f) in cells.items():
        least, exact, most = (2 * (p + e) * (r + e) / (p + r + 2 * e) for e in (-0.005, 0, 0.005))
        if not least - 0.005 <= f <= most + 0.005:
            found.append(f'"{name}": F {f:.2f} contradicts P and R, which give {exact:.2f}.')
    return " ".join(found)


def parse_quoted_levels(paper: str) -> dict[tuple[str, str, str], Figures]:
    """Return Table 2 or 3 of the paper: precision, recall and F by level, kind and block."""
    lines = [[float(cell) for cell in line.split()] for line in paper.split("\n") if line]
    places = [(kind, format_title(block, "keywords")) for kind in KINDS for block in BLOCKS]
    return {
        (str(level), kind, block): (line[3 * at], line[3 * at + 1], line[3 * at + 2])
        for level, line in enumerate(lines, start=1)
        for at, (kind, block) in enumerate(places)
    }


def make_amazon_table() -> str:
    """Return the block of the paper's Table 2 on another corpus."""
    rows = []
    for level, line in enumerate(TABLE_2_AMAZON.split("\n")[1:-1], start=1):
        cells = line.split()
        rows += [[f"level {level}", "top K", *cells[:3]], [f"level {level}", "OFO", *cells[3:]]]
    return "## Table 2 of the paper, AmazonCat-13K (quoted)\n\n" + table(["", "", *MICRO], rows)


def format_k(values: Sequence[int]) -> str:
    return f"{min(values)}" + (f" to {max(values)}" if max(values) > min(values) else "")


def make_merge_table(results: Results, paper: bool, beside: Beside) -> str:
    """Return Table 4 with all rows, and other systems below."""
    names = (*MACRO, *MICRO)
    rows = []
    for row, runs in results.items():
        cells = [format_spread([run["test"][name] for run in runs]) for name in names]
        dev = format_spread([run["dev"]["MiF"] for run in runs]) if runs[0]["dev"] else ""
        name, *quoted = TABLE_4.get(row, ("",))
        theirs = f"{name}: {', '.join(f'{value:.2f}' for value in quoted)}" if quoted else ""
        rows.append([row, *cells, dev, *([theirs] if paper else [])])
    others = dict(beside)
    if paper:
        earlier = TABLE_4_EARLIER.items()
        others |= {f"{n} (quoted)": dict(zip(MACRO, f, strict=True)) for n, f in earlier}
    for name, figures in others.items():
        cells = [f"{figures[n]:.2f}" if n in figures else "" for n in names]
        rows.append([name, *cells, *[""] * (1 + paper)])
    head = ["row", *names, "MiF on dev", *(["paper: MaP, MaR, MaF"] if paper else [])]
    text = "## Table 4: merged label sets\n\n" + table(head, rows)
    if not paper:
        return text
    own = {name: (p, r, f) for name, p, r, f in TABLE_4.values()}
    return (
        f"{text}\n\nIn the paper, the table lists max pooling without pointer generator, the "
        "text with it. " + list_contradictions({**TABLE_4_EARLIER, **own})
    )


def make_ranking_table(results: Results, paper: bool) -> str:
    rows = [
        [row, *(format_spread([run["test"][name] for run in runs]) for name in RANKED)]
        for row, runs in results.items()
    ]
    text = "## Table 5: rankings\n\n" + table(["row", *RANKED], rows)
    if paper:
        quoted = [[name, *(f"{value:.2f}" for value in line)] for name, line in TABLE_5.items()]
        text += (
            "\n\n## Table 5 of the paper, AmazonCat-13K (quoted)\n\n"
            + table(["", *RANKED], quoted)
            + "\n\nThe two had different test documents. The nDCG@1 of Deep Level-wise XMLC "
            "differs from its P@1, which its own definition forbids."
        )
    return text


def make_cost_table(results: Results) -> str:
    """Return training seconds in total and by level, peak GPU memory and speed of prediction.

    They are those of the fastest seed, which other trainings disturbed least. The time of both
    passes is divided like a step of the last one.
    """
    rows = []
    for row, runs in results.items():
        run = min(runs, key=lambda run: run["seconds"]["in all"])
        seconds, shares = run["seconds"], run["share of a step"]
        networks = sum(value for name, value in seconds.items() if name.startswith("pass "))
        levels = ", ".join(f"{m}: {share * networks:.0f}" for m, share in shares.items())
        memory = "" if run["memory GiB"] is None else f"{run['memory GiB']:.1f}"
        pointer = f"{seconds.get('pointer', 0):.0f}"
        speed = f"{run['documents a second']:,}"
        rows.append([row, f"{seconds['in all']:.0f}", levels, pointer, memory, speed])
    head = ["row", "total s", "s by level (shared: all levels)", "pointer generator s", "GPU GiB"]
    head.append("documents/s")
    machine = next(iter(results.values()))[0]["hardware"] if results else ""
    return f"## Cost of training and prediction, fastest seed, {machine}\n\n" + table(head, rows)


def draw_streams(curves: Mapping[str, Any], path: Path) -> None:
    """Draw Figure 5: macro precision, recall and F over the documents, one panel per level."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(1, len(curves), figsize=(3 * len(curves), 3), squeeze=False)
    for axis, (level, curve) in zip(axes[0], curves.items(), strict=True):
        for name in MACRO:
            axis.plot(curve["documents"], curve[name], label=name)
        axis.set(title=f"level {level}", xlabel="documents", ylim=(0, 1))
    axes[0, 0].legend()
    save(pyplot, figure, path)


def draw_rare(without: Bins, with_levels: Bins, path: Path) -> None:
    """Draw recall and precision of rare labels, without and with neighbour levels."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3))
    for axis, (name, of) in zip(
        axes, (("recall", "true"), ("precision", "predicted")), strict=True
    ):
        for shift, bins, kind in ((-0.2, without, "without"), (0.2, with_levels, "with")):
            heights = [100 * b["hit"] / max(1, b[of]) for b in bins.values()]
            places = [place + shift for place in range(len(bins))]
            axis.bar(places, heights, width=0.38, label=f"{kind} neighbour levels")
        axis.margins(y=0.3)  # room for the legend
        axis.set_xticks(range(len(without)), list(without))
        axis.set(xlabel="training documents of a label", ylabel=f"{name}, %")
    axes[0].legend()
    save(pyplot, figure, path)


def import_pyplot() -> Any:
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
