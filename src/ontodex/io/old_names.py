"""Settings that were renamed: run folders and TOML files with the old names still load.

Each row says what a setting was called, what it is called now, which systems have it (all, where
none is named), and what its values are called now where they changed too.

`translate_old_names` serves config files and `--set`. `config.build` calls `translate_saved`, which
serves the settings that systems keep in their own files of a run folder.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ontodex.io.old_systems import name_system

logger = logging.getLogger(__name__)

Table = dict[str, Any]

MAX_LAYERS, OLD_WIDTH = 64, 512  # of version 0.1


@dataclass(frozen=True)
class Renamed:
    """One renamed setting, as `table.key`."""

    old: str
    new: str
    systems: tuple[str, ...] = ()  # that have it; none named = every system
    values: Mapping[Any, Any] = field(default_factory=dict)  # old value -> new value
    is_listed: bool = False  # the new value is a list of the old one


# Settings of the training loop. Checkpoints hold them too.
LOOP_NAMES = {
    "batch": "batch_size",
    "warmup": "warmup_steps",
    "final_lr": "final_lr_ratio",
    "clip": "max_grad_norm",
    "average": "ema_rate",
}
NETWORKS = (
    "averaged", "attentionxml", "attentive", "xmlrnn", "xmlcnn", "bowcnn", "lightattention",
    "attentive-tree", "levelwise", "attentive-levels",
)  # fmt: skip
SHORT_LOOPS = ("graphknn", "autoencoder")  # systems with few settings of the loop
LEVELS = ("levelwise", "attentive-levels")
ATTENTIVE = ("attentive", *LEVELS)
LAYERED = ("attentionxml", "xmlrnn", "lightattention", "attentive-tree")  # widths are `layers`

RENAMED: tuple[Renamed, ...] = (
    Renamed("decide.rule", "decide.rule", values={"top": "top-k"}),
    Renamed("decide.top", "decide.top_k"),
    Renamed("model.languages", "train.languages"),
    *(Renamed(f"model.train.{o}", f"model.train.{n}", NETWORKS) for o, n in LOOP_NAMES.items()),
    Renamed("model.reader", "model.word_aggregation", LEVELS),
    Renamed("model.sets", "model.keyword_encoder", LEVELS),
    Renamed("model.set_windows", "model.keyword_windows", LEVELS),
    Renamed("model.set_maps", "model.keyword_maps", LEVELS),
    Renamed("model.keyword_count", "model.keyword_min_count", LEVELS),
    Renamed("model.row_norm", "model.max_norm", LEVELS),
    Renamed("model.categories", "model.categories", LEVELS, {"dealt": "balanced"}),
    Renamed("model.move_odds", "model.logit_shift", LEVELS),
    Renamed("model.second", "model.pass2_init", LEVELS, {"anew": "scratch"}),
    Renamed("model.second_epochs", "model.pass2_epochs", LEVELS),
    Renamed("model.second_lr", "model.pass2_lr_factor", LEVELS),
    Renamed("model.pointer.share", "model.pointer.candidate_threshold_ratio", LEVELS),
    Renamed("model.pointer.odds", "model.pointer.candidate_odds", LEVELS),
    Renamed("model.pointer.coverage", "model.pointer.coverage_weight", LEVELS),
    Renamed("model.value", "model.value_dim", ATTENTIVE),
    *(
        Renamed(f"model.{old}", "model.layers", LAYERED, is_listed=True)
        for old in ("value_dim", "value")
    ),
    Renamed("model.way", "model.path_scoring", ("lightattention", "attentive-tree")),
    Renamed("model.learned", "model.train_beam_ratio", ("lightattention", "attentive-tree")),
    Renamed("model.balance", "model.reconstruction_weight", ("autoencoder",)),
    Renamed("model.direct", "model.direct_weight", ("autoencoder",)),
    Renamed("model.train.batch", "model.train.batch_size", SHORT_LOOPS),
    Renamed("model.train.average", "model.train.ema_rate", SHORT_LOOPS),
    Renamed("model.train.seed", "model.seed", ("landmark",)),
)


def translate_old_names(tables: Mapping[str, Any], *, names_them: bool = True) -> Table:
    """Return the tables with old names and values replaced by those of today, with a warning.

    The warning names each renamed setting, or with `names_them` = False only their number; then
    the names are logged for debugging.
    """
    translated: Table = copy.deepcopy(dict(tables))
    model = translated.get("model", {})
    replaced = []
    if (system := model.get("name")) != (today := name_system(model)):
        replaced.append(f"a {system} with these settings is now the system {today}")
        model["name"] = system = today
    if system in LAYERED and _list_layers(model):
        replaced.append("model.layers is now the width of each layer")
    replaced += [
        f"{row.old} is now {row.new}"
        for row in RENAMED
        if (not row.systems or system in row.systems) and _rename(translated, row)
    ]
    if replaced and names_them:
        logger.warning("settings with old names were understood: %s", "; ".join(replaced))
    elif replaced:
        logger.warning(
            "settings of this run that were renamed since it was trained: %d", len(replaced)
        )
        logger.debug("renamed settings: %s", "; ".join(replaced))
    return translated


def translate_saved(
    table: Mapping[str, Any], where: str, *, accepts: Callable[[str, Any], bool]
) -> Table:
    """Return the table named `where` as a system of version 0.1 saved it, with today's names.

    `accepts(setting, value)` says whether the system has a setting, as `table.key`, and takes this
    value for it. So rows of other systems change nothing here.
    """
    tables: Table = copy.deepcopy({where: dict(table)})
    if where == "model" and accepts("model.layers", [1]):
        _list_layers(tables[where])
    for row in RENAMED:
        if not row.old.startswith(f"{where}."):
            continue
        *path, old = row.old.split(".")
        inner = _inner(tables, path)
        if inner is None or old not in inner or accepts(row.old, inner[old]):
            continue
        if accepts(row.new, _new_value(row, inner[old])):
            _rename(tables, row)
    return dict(tables[where])


def _list_layers(model: Table) -> bool:
    """Replace the number of layers, as version 0.1 had it, by the width of each."""
    number = model.get("layers")
    if not isinstance(number, int) or not 1 <= number <= MAX_LAYERS:
        return False
    width = model.pop("value", OLD_WIDTH)
    model["layers"] = [model.pop("value_dim", width)] * number
    return True


def _new_value(row: Renamed, value: Any) -> Any:
    if row.is_listed:
        return [value]
    is_hashable = not isinstance(value, list | dict)
    return row.values.get(value, value) if is_hashable else value


def _rename(tables: Table, row: Renamed) -> bool:
    """Rename one setting in place where it is there under its old name or with an old value."""
    *path, old = row.old.split(".")
    *new_path, new = row.new.split(".")
    table = _inner(tables, path)
    if table is None or old not in table:
        return False
    value = table[old]
    renamed = _new_value(row, value)
    if old == new and path == new_path and renamed == value:
        return False
    del table[old]
    target = tables
    for step in new_path:
        target = target.setdefault(step, {})
    target.setdefault(new, renamed)
    return True


def _inner(tables: Table, path: list[str]) -> Table | None:
    table: Any = tables
    for step in path:
        table = table.get(step) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else None
