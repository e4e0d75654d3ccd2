"""Cache keys of training stages: everything that a stage depends on, as JSON values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from scipy.sparse import csr_array

from ontodex.config import list_constants
from ontodex.models.levelwise import levels
from ontodex.models.levelwise.config import LevelsConfig
from ontodex.models.levelwise.levels import Level
from ontodex.models.levelwise.network import Tables
from ontodex.models.levelwise.pass_data import PassData
from ontodex.models.levelwise.stage_cache import digest_arrays, digest_pattern

STAGE_FORMAT = 5  # increase when the same settings and data train another result
# Settings that pass 1 does not depend on; trainings that differ only in these share pass 1.
AFTER_PASS_1 = (
    "inputs", "neighbours", "pass2_init", "pass2_epochs", "pass2_lr_factor", "average_passes",
    "logit_shift", "first_lambda", "ofo_prior", "ofo_passes", "merge", "pointer",
)  # fmt: skip
AFTER_PASS_2 = ("average_passes", "merge", "pointer")


def make_cache_key(
    config: LevelsConfig,
    data: PassData,
    tables: Tables,
    planned: Sequence[Level],
    ancestors: csr_array,
    later: Sequence[str],
) -> dict[str, Any]:
    """Return the cache key of a stage that does not depend on the settings named in `later`."""
    settings = {**list_constants(type(config)), **dataclasses.asdict(config)}
    del settings["train"]["checkpoint_seconds"]  # does not change what is learned
    unused = () if config.pass2_init == "continued" else ("pass2_epochs", "pass2_lr_factor")
    vectors = (tables.words, tables.keywords, tables.labels)
    return {
        "format": STAGE_FORMAT,
        "settings": {name: v for name, v in settings.items() if name not in (*later, *unused)},
        "keywords": config.reads_keywords,
        "train": data.train.key,
        "dev": data.dev.key,
        "levels": levels.to_json(planned),
        "ancestors": digest_pattern(ancestors),
        "targets": [digest_pattern(gold) for gold in data.targets.local],
        "vectors": ["" if t is None else digest_arrays(t.numpy()) for t in vectors],
    }
