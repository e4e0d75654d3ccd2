"""Measure the guess of the languages of corpora that have only titles.

    python bench/language_guess.py

Reads TIBKAT and MEDLINE from $ONTODEX_DATA, else ../shared/data, and the lists of titles of the
tests.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

from ontodex.corpora.open import open_corpus
from ontodex.features.corpus_languages import guess_languages

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ONTODEX_DATA", ROOT.parent / "shared" / "data"))
SLICES = 25
MEDLINE_TITLES = 3_000
Titles = dict[str, list[str]]


def read_titles() -> Titles:
    """Return the titles of each source, by name and language."""
    found: Titles = defaultdict(list)
    for doc in open_corpus(DATA / "tibkat" / "test.jsonl.xz"):
        found[f"tibkat {doc.metadata['language']}"].append(doc.fields["title"])
    citations = open_corpus(DATA / "medline" / "pubmed20n0014.xml.gz")
    for doc, _ in zip(citations, range(MEDLINE_TITLES), strict=False):
        found["medline"].append(doc.fields["title"])
    short = ROOT / "tests" / "features" / "short_titles.tsv"
    for line in short.read_text(encoding="utf-8").splitlines():
        language, title = line.split("\t")
        found[f"short {language}"].append(title)
    return found


def main() -> None:
    for name, titles in read_titles().items():
        sys.stdout.write(f"{name}, {len(titles)}: {guess_languages(titles)}\n")
        for size in (20, 40, 100):
            starts = range(0, len(titles) - size, size)
            limit = None if name == "medline" else SLICES
            guesses = Counter(
                guess_languages(titles[start : start + size]).languages for start in starts[:limit]
            )
            if guesses:
                sys.stdout.write(f"  slices of {size}: {dict(guesses)}\n")


if __name__ == "__main__":
    main()
