"""Print the share of the tokens of each stream of `levelwise` that have a vector of their own.

    python bench/known_tokens.py PREPARED/medline-levels

The folder is one of `ontodex prepare` (docs/lab/papers.md). Words are counted up to the prepared
length; phrases before unknown ones are left out, so that a bad extraction shows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ontodex.features.prepare import RECORD
from ontodex.features.vocabulary import UNKNOWN, EncodedTexts
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.streams import StreamEncoder, tokenise_keywords, tokenise_words
from ontodex.types import Corpus

PARTS = ("train", "dev", "test")


def main() -> None:
    folder = Path(sys.argv[1])
    corpora = {part: Corpus.open(folder / part) for part in PARTS if (folder / part).exists()}
    sys.stdout.write(format_table(corpora, read_config(folder)))


def read_config(folder: Path) -> LevelwiseConfig:
    """Return the settings of `levelwise` that read what the folder was prepared with."""
    settings = json.loads((folder / RECORD).read_text())["plan"]["settings"]
    own = {name: settings[name] for name in ("max_length", "min_count", "stop_words")}
    return LevelwiseConfig(**own)


def format_table(corpora: dict[str, Corpus], config: LevelwiseConfig) -> str:
    """Return a Markdown table: a row for each part of the corpus."""
    encoder = StreamEncoder.fit(corpora["train"], config)
    lines = ["| | words known | keywords known | keywords a document |", "|---|---:|---:|---:|"]
    for part, corpus in corpora.items():
        words = encoder.words.encode(tokenise_words(corpus, config), config.max_length)
        assert encoder.keywords is not None
        keywords = encoder.keywords.encode(tokenise_keywords(corpus, encoder.phrases))
        each = len(keywords.ids) / max(1, len(corpus))
        lines.append(f"| {part} | {share(words)} | {share(keywords)} | {each:.1f} |")
    return "\n".join(lines) + "\n"


def share(encoded: EncodedTexts) -> str:
    return f"{100 * float((encoded.ids != UNKNOWN).mean()):.1f} %"


if __name__ == "__main__":
    main()
