"""Word pieces per word of an encoder, by a metadata value such as the language.

    python bench/word_pieces.py encoders/minilm tibkat/train.jsonl --by language

A text that falls into many pieces fills the encoder's window earlier, and its pieces mean less.
Also counted: words that are one piece, words of four or more, words that are unknown, and texts
that are longer than a window.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from ontodex.corpora.open import open_corpus
from ontodex.features.word_pieces import PIECES, WordPieces

WINDOW = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("encoder", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--by", required=True)
    parser.add_argument("--documents", type=int, default=2_000, help="the first ones")
    given = parser.parse_args()
    pieces = WordPieces.load(given.encoder / PIECES)
    corpus = open_corpus(given.corpus)
    groups = defaultdict[str, list[str]](list)
    for doc in corpus.select(np.arange(min(given.documents, len(corpus)))):
        groups[str(doc.metadata.get(given.by, ""))].append(doc.text)
    columns = ("records", "words", "pieces a word", "one piece", "four or more", "unknown", "cut")
    say(f"| group | {' | '.join(columns)} |\n|---{'|---:' * len(columns)}|")
    for name, texts in sorted(groups.items()):
        say(f"| {name} | {len(texts):,} | {' | '.join(count(pieces, texts))} |")


def count(pieces: WordPieces, texts: list[str]) -> list[str]:
    """Return words, pieces a word, and percentages: words in one piece, in four or more, words
    with an unknown piece, and texts that are longer than a window. Words begin with a letter."""
    sizes, is_unknown, is_long = list[int](), list[bool](), list[bool]()
    unknown = pieces.ids["[UNK]"]
    for text, found in zip(texts, pieces.divide(texts, window=100_000, n_windows=1), strict=True):
        words: dict[int, list[int]] = {}
        for piece in found[1:-1]:
            if piece.word in words or text[piece.start].isalpha():
                words.setdefault(piece.word, []).append(piece.id)
        sizes += map(len, words.values())
        is_unknown += [unknown in ids for ids in words.values()]
        is_long.append(len(found) > WINDOW)
    n = np.array(sizes)
    shares = [n == 1, n >= 4, np.array(is_unknown), np.array(is_long)]
    return [f"{len(n):,}", f"{n.mean():.2f}", *(f"{100 * share.mean():.1f}" for share in shares)]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
