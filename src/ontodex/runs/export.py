"""Write a run for programs without ontodex: a folder with an ONNX file.

model.onnx     tokens of one document -> probabilities of all labels
labels.tsv     the label of each probability: id and name
tokens.json    the settings by which a text becomes tokens, and an example
"""

from __future__ import annotations

import json
from pathlib import Path

from ontodex.errors import ConfigError, RunError
from ontodex.features.tokens import tokenise
from ontodex.io.files import open_atomic, write_text
from ontodex.models.baselines.linear import LinearSystem
from ontodex.runs.run import Run, load

TARGETS = ("onnx",)
EXAMPLE = "Brown trout return to the city's restored stream in 2024."


def export(run: Run | str | Path, out: str | Path, to: str = "onnx") -> list[Path]:
    """Write the run into the folder `out` and return the files.

    >>> [path.name for path in ontodex.export("runs/linear", "exported")]
    ['model.onnx', 'labels.tsv', 'tokens.json']
    """
    if to not in TARGETS:
        raise ConfigError(f"--to {to}: a run can be exported to {', '.join(TARGETS)}")
    run, out = run if isinstance(run, Run) else load(run), Path(out)
    if not isinstance(run.model, LinearSystem):
        raise RunError(
            f"the system {run.settings.name!r} cannot be exported to ONNX",
            hint="`linear` can; every other run is used through the service or in Python",
        )
    content, settings = run.model.to_onnx(), run.model.token_settings()
    files = [out / name for name in ("model.onnx", "labels.tsv", "tokens.json")]
    with open_atomic(files[0]) as file:
        file.write(content)
    rows = [
        f"{label}\t{' '.join(run.labels.name(column).split())}\n"
        for column, label in enumerate(run.labels.ids[: run.labels.n_seen])
    ]
    write_text(files[1], "label\tname\n" + "".join(rows))
    example = {"text": EXAMPLE, "tokens": tokenise(EXAMPLE, run.model.config)}
    about = {"settings": settings, "pattern": r"[^\W_]+", "example": example}
    write_text(files[2], json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    return files
