"""Every benchmark after the other: `make bench`. Those that need real data run where it is.

Data: $ONTODEX_DATA, else ../shared/data. Each prints its own table; the figures in docs/ name the
command they came from.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("ONTODEX_DATA", HERE.parent.parent / "shared" / "data"))

ALONE: tuple[tuple[str, ...], ...] = (
    ("hostile.py",),
    ("formats.py",),
    ("corpus_memory.py",),
    ("ontology.py",),
    ("metrics.py",),
    ("decide.py",),
    ("index.py",),
    ("label_tree.py",),
)
ON_DATA: tuple[tuple[str, ...], ...] = (
    ("medline.py", str(DATA / "medline" / "pubmed20n0014.xml.gz"), "--repeat", "5"),
    ("features.py", str(DATA / "eurlex57k")),
    ("linear.py", "eurlex57k"),
    ("pecos.py", "eurlex57k"),
)


def main() -> None:
    for script, *arguments in (*ALONE, *(ON_DATA if DATA.is_dir() else ())):
        sys.stdout.write(f"\n## bench/{script}\n\n")
        sys.stdout.flush()
        subprocess.run([sys.executable, str(HERE / script), *arguments], check=True)


if __name__ == "__main__":
    main()
