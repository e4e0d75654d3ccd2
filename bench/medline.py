"""Measure the speed of reading PubMed XML, beside a bare lxml iterparse over the same file.

    python bench/medline.py FILE.xml.gz [--repeat 5]

The two take turns, each in a process of its own; medians are printed, and the ratio is the median
of the ratios of neighbouring turns, so that other work on the machine weighs on both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from lxml import etree

from ontodex.corpora.formats import medline


def bare(path: Path) -> dict[str, int]:
    """Parse every article and do nothing with it."""
    count = 0
    with gzip.open(path) as file:
        for _, article in etree.iterparse(file, tag="PubmedArticle"):
            article.clear()
            count += 1
    return {"citations": count}


def ours(path: Path) -> dict[str, int]:
    """Read every citation as a Doc, and count what the data set's description counts."""
    n_docs = n_labelled = n_both = 0
    descriptors: set[str] = set()
    for doc in medline.read(path):
        n_docs += 1
        n_labelled += bool(doc.labels)
        if doc.labels and "abstract" in doc.fields:
            n_both += 1
            descriptors.update(doc.labels)
    return {
        "citations": n_docs,
        "with MeSH": n_labelled,
        "with abstract and MeSH": n_both,
        "descriptors among those": len(descriptors),
    }


READERS = {"bare": bare, "ours": ours}


def measure(name: str, path: Path) -> None:
    """Run one reader here and print its figures as JSON."""
    start, cpu = time.perf_counter(), time.process_time()
    counts = READERS[name](path)
    figures = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": peak_mb(),
        "counts": counts,
    }
    print(json.dumps(figures))


def peak_mb() -> float:
    """Most memory this process has held. ru_maxrss would count the parent's before exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("file", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", choices=READERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        measure(given.only, given.file)
        return
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
    for _ in range(given.repeat):
        for name in READERS:
            command = [sys.executable, __file__, str(given.file), "--only", name]
            runs[name].append(json.loads(subprocess.check_output(command)))
    print("| reader | seconds | CPU seconds | peak MB |\n|---|---|---|---|")
    for name, found in runs.items():
        middle = {
            key: median(run[key] for run in found) for key in ("seconds", "cpu_seconds", "peak_mb")
        }
        print("| {} | {seconds:.2f} | {cpu_seconds:.2f} | {peak_mb:.0f} |".format(name, **middle))
    ratios = sorted(
        our["cpu_seconds"] / their["cpu_seconds"]
        for our, their in zip(runs["ours"], runs["bare"], strict=True)
    )
    print(
        f"\nratio of CPU seconds: {median(ratios):.2f} (from {ratios[0]:.2f} to {ratios[-1]:.2f})"
    )
    print(f"counts: {runs['ours'][0]['counts']}")


if __name__ == "__main__":
    main()
