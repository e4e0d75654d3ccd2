"""The systems by name. Strings, so that reading the list imports nothing.

Adding a system: its file here, one line below, its page in docs/papers/. The contract suite
(tests/test_every_model.py) finds it by itself.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from ontodex.config import nearest
from ontodex.errors import ConfigError

if TYPE_CHECKING:
    from ontodex.models.base import Model

MODELS = {
    "popularity": "ontodex.models.popularity:Popularity",
    "lexical": "ontodex.models.lexical:Lexical",
    "knn": "ontodex.models.knn:Knn",
    "kernel": "ontodex.models.kernel:Kernel",
    "linear": "ontodex.models.linear:Linear",
    "averaged": "ontodex.models.averaged:Averaged",
    "dxml": "ontodex.models.dxml:Dxml",
    "parabel": "ontodex.models.trees:Parabel",
    "bonsai": "ontodex.models.trees:Bonsai",
    "attentionxml": "ontodex.models.attentionxml:AttentionXMLSystem",
    "xmlrnn": "ontodex.models.attentionxml:XMLRNNSystem",
    "xmlcnn": "ontodex.models.xmlcnn:XMLCNNSystem",
    "bowcnn": "ontodex.models.bowcnn:BowCNNSystem",
    "lightattention": "ontodex.models.lightattention:LightAttentionSystem",
    "levelwise": "ontodex.models.levelwise:Levelwise",
    "rankae": "ontodex.models.rankae:RankAESystem",
    "consensus": "ontodex.models.consensus:Consensus",
}


def find(name: str) -> type[Model]:
    """The class of a system; other packages may offer theirs in the group `ontodex.models`."""
    where = MODELS.get(name)
    if where is None:
        offered = {point.name: point.value for point in entry_points(group="ontodex.models")}
        where = offered.get(name)
    if where is None:
        raise ConfigError(f"[model] name: there is no system {name!r}{nearest(name, list(MODELS))}")
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)
