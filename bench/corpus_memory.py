"""Memory and time of a corpus of a million documents of 100 words: converted, then iterated.

    python bench/corpus_memory.py [--documents 1000000]

Makes the file (JSON lines, seeded), then runs each step in a process of its own, whose highest
resident size is printed. Pages of the memory-mapped corpus count as resident.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = {
    "convert": "from ontodex.corpora.open import read_docs, write_docs\n"
    "n = write_docs(read_docs(source), folder, 'corpus')",
    "iterate": "from ontodex.corpora.open import open_corpus\n"
    "n = sum(1 for doc in open_corpus(folder))",
    "read text": "from ontodex.corpora.open import open_corpus\n"
    "n = sum(1 for text in open_corpus(folder).texts())",
}
FRAME = """
import resource, sys
from pathlib import Path
source, folder = map(Path, sys.argv[1:])
{step}
print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def make(path: Path, n_docs: int) -> None:
    """Documents of 100 words out of 50,000, with five labels out of 10,000."""
    random_ = random.Random(17)
    words = [f"w{random_.randrange(16**6):x}" for _ in range(50_000)]
    with path.open("w") as file:
        for i in range(n_docs):
            text = " ".join(random_.choices(words, k=100))
            labels = [f"D{label}" for label in random_.sample(range(10_000), 5)]
            file.write(json.dumps({"id": str(i), "text": text, "labels": labels}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    n_docs = parser.parse_args().documents
    with tempfile.TemporaryDirectory() as temporary:
        source, folder = Path(temporary) / "docs.jsonl", Path(temporary) / "corpus"
        make(source, n_docs)
        print(f"{n_docs:,} documents, {source.stat().st_size / 2**20:,.0f} MiB of JSON lines\n")
        print("| step | seconds | peak memory (MiB) |\n|---|---:|---:|")
        for name, step in STEPS.items():
            started = time.perf_counter()
            command = [sys.executable, "-c", FRAME.format(step=step), str(source), str(folder)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            count, peak = map(int, output.split())
            assert count == n_docs
            print(f"| {name} | {time.perf_counter() - started:.0f} | {peak:,} |", flush=True)


if __name__ == "__main__":
    main()
