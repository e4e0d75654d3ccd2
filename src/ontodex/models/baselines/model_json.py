"""Read and write model.json: the settings, the calibration and the choices of a system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ontodex.config import Table
from ontodex.decide.calibrate import Calibration
from ontodex.io.files import write_text
from ontodex.io.json_schema import load_json


@dataclass(frozen=True)
class ModelJson:
    """The fields of every model.json; systems with more inherit these."""

    config: Table
    calibration: Calibration


T = TypeVar("T", bound=ModelJson)


def save_model_json(
    folder: Path, config: Any, calibration: Calibration, **more: Mapping[str, Any] | int | float
) -> None:
    """Write settings, calibration and further small values."""
    table = {"config": asdict(config), "calibration": calibration.to_json(), **more}
    write_text(folder / "model.json", json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def load_model_json(folder: Path, cls: type[T]) -> T:
    """Read what `save_model_json` wrote, as the class that declares its fields."""
    return load_json(folder / "model.json", cls)
