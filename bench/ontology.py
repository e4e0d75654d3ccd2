"""Seconds and peak memory for reading a million concepts in each large format.

    python bench/ontology.py                    one Markdown row a format
    python bench/ontology.py --concepts 100000

The made-up ontology is a tree of mean depth about 14 in which every tenth concept has a second
parent, with one synonym each. Every format is read in a process of its own, from its name to the
finished Ontology; levels, and a write of our own form, are timed after it in the same process.
Wall and processor seconds are given, since they part on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ontodex.ontology.levels import assign_levels
from ontodex.ontology.open import read_ontology, write_ontology

FORMATS = ("edges", "mesh-tsv", "obo", "json", "turtle")


def concepts(n: int) -> Iterator[tuple[int, list[int]]]:
    """(number, parents) of each concept; the first hundred are roots."""
    chance = random.Random(7)
    for i in range(n):
        if i < 100:
            yield i, []
        else:
            parents = {chance.randrange(i)} | ({chance.randrange(i)} if i % 10 == 0 else set())
            yield i, sorted(parents)


def generate(format_: str, n: int) -> Iterator[str]:
    """The lines of the file."""
    if format_ == "obo":
        yield "format-version: 1.4\n"
    if format_ == "turtle":
        yield "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
    if format_ == "json":
        yield '{"ontodex": "ontology", "version": 1, "concepts": [\n'
    places: list[str] = []
    for i, parents in concepts(n):
        name, synonym = f"concept number {i}", f"synonym {i}"
        if format_ == "edges":
            yield from (f"C{p}\tC{i}\n" for p in parents)
        elif format_ == "mesh-tsv":
            places.append(f"{places[parents[0]]}.{i}" if parents else f"A{i:02}")
            numbers = "|".join([places[i], *(f"{places[p]}.{i}" for p in parents[1:])])
            yield f"D{i:07}\t{name}\t{synonym}\t{numbers}\n"
        elif format_ == "obo":
            yield f'\n[Term]\nid: C:{i}\nname: {name}\nsynonym: "{synonym}" EXACT []\n'
            yield from (f"is_a: C:{p} ! concept number {p}\n" for p in parents)
        elif format_ == "json":
            record = {"id": f"C{i}", "names": {"en": name}, "synonyms": {"en": [synonym]}}
            ending = "," if i < n - 1 else ""
            yield json.dumps(record | {"parents": [f"C{p}" for p in parents]}) + ending + "\n"
        else:
            broader = "".join(f" skos:broader <http://e/{p}> ;" for p in parents)
            yield f'<http://e/{i}> a skos:Concept ; skos:prefLabel "{name}"@en ;{broader} '
            yield f'skos:altLabel "{synonym}"@en .\n'
    if format_ == "json":
        yield "]}\n"


def measure(path: Path, format_: str) -> None:
    """Read, then levels, then write; seconds of each and the highest memory after the reading."""
    start, clock = time.perf_counter(), time.process_time()
    ontology = read_ontology(path, format_)
    wall, read = time.perf_counter() - start, time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    levels = assign_levels(ontology)
    levelled = time.process_time()
    write_ontology(ontology, path.with_name("written.json"), "json")
    written = time.process_time()
    print(
        f"| {format_} | {path.stat().st_size / 1e6:,.0f} MB | {len(ontology):,} | {wall:.1f} s "
        f"| {read - clock:.1f} s | {peak:.2f} GiB | {levelled - read:.1f} s ({levels.n_levels}) "
        f"| {written - levelled:.1f} s |"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--concepts", type=int, default=1_000_000)
    arguments.add_argument("--measure", nargs=2, metavar=("PATH", "FORMAT"))
    chosen = arguments.parse_args()
    if chosen.measure:
        measure(Path(chosen.measure[0]), chosen.measure[1])
        return
    columns = ["size", "concepts", "read", "read, CPU", "peak", "levels, CPU", "write, CPU"]
    print(f"| format | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for format_ in FORMATS:
            path = Path(folder) / f"big.{format_}"
            with path.open("w", encoding="utf-8") as file:
                file.writelines(generate(format_, chosen.concepts))
            command = [sys.executable, __file__, "--measure", str(path), format_]
            subprocess.run(command, check=True)
            path.unlink()


if __name__ == "__main__":
    main()
