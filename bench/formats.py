"""Read and write speed of every corpus format, on the same documents.

    python bench/formats.py [--documents 100000] [FORMAT ...]

Text formats get documents of about 100 words (title and abstract) with five labels; formats of
features get as many documents with 60 features. MB are 10^6 bytes of the file or folder written.
Speeds are per second of processor time, so that they do not depend on what else the machine does;
reading counts iterating over all documents.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ontodex.corpora.formats import FORMATS, list_writable, load_format
from ontodex.corpora.open import read_docs, write_docs
from ontodex.types import Doc

NAMES = {
    "corpus": "corpus",
    "pecos-npz": "X.trn.npz",
    "xmc-matrix": "trn_X_Xf.txt",
    "attentionxml": "trn_texts.txt",
    "annif-folder": "folder",
}


def texts(n_docs: int) -> Iterator[Doc]:
    """Documents of about 100 words out of 50,000."""
    random_ = random.Random(17)
    words = [f"w{random_.randrange(16**6):x}" for _ in range(50_000)]
    for i in range(n_docs):
        title, abstract = random_.choices(words, k=10), random_.choices(words, k=90)
        labels = tuple(f"D{label}" for label in random_.sample(range(10_000), 5))
        yield Doc(str(i), {"title": " ".join(title), "abstract": " ".join(abstract)}, labels=labels)


def features(n_docs: int) -> Iterator[Doc]:
    """Documents with 60 features out of 50,000."""
    random_ = random.Random(17)
    for i in range(n_docs):
        row = {index: round(random_.random(), 4) for index in random_.sample(range(50_000), 60)}
        labels = tuple(str(label) for label in random_.sample(range(10_000), 5))
        yield Doc(str(i), labels=labels, features=row)


def write_laws(docs: list[Doc], path: Path) -> None:
    """The same documents as EURLEX57K, which the package reads but does not write."""
    path.parent.mkdir()
    with path.open("w") as file:
        for doc in docs:
            law = {"celex_id": doc.id, "concepts": doc.labels, "title": doc.fields["title"]}
            file.write(json.dumps(law | {"main_body": [doc.fields["abstract"]]}) + "\n")


def size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", default=list(FORMATS))
    parser.add_argument("--documents", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        sources = {
            "text": list(texts(options.documents)),
            "sparse": list(features(options.documents)),
        }
        print(
            "| format | MB | write MB/s | read MB/s | read documents/s |\n|---|---:|---:|---:|---:|"
        )
        for format in options.formats:
            can_write = format in list_writable()
            has_text = not can_write or "text" in load_format(format).CAPABILITIES.kinds
            source = sources["text" if has_text else "sparse"]
            folder = root / format
            path = folder / NAMES.get(format, "docs.txt")
            started = time.process_time()
            if can_write:
                write_docs(source, path, format)
            else:
                write_laws(source, path)
            written = time.process_time()
            count = sum(1 for _ in read_docs(path, format))
            done = time.process_time()
            assert count == options.documents
            megabytes, reading = size(folder), done - written
            writing = f"{megabytes / (written - started):.1f}" if can_write else "-"
            print(
                f"| {format} | {megabytes:.0f} | {writing} "
                f"| {megabytes / reading:.1f} | {count / reading:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
