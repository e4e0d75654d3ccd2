"""The systems by name, as strings: reading the list imports no system.

To add a system, add its module or package here, one line below and a page in docs/papers/. The
contract suite (tests/models/test_every_model.py) tests every system of the list.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from ontodex.config import suggest
from ontodex.errors import ConfigError

if TYPE_CHECKING:
    from ontodex.models.interface import Model

MODELS = {
    "popularity": "ontodex.models.baselines.popularity:PopularitySystem",
    "lexical": "ontodex.models.baselines.lexical:LexicalSystem",
    "semantic": "ontodex.models.semantic.system:SemanticSystem",
    "knn": "ontodex.models.baselines.knn:KnnSystem",
    "kernel": "ontodex.models.baselines.kernel:KernelSystem",
    "linear": "ontodex.models.baselines.linear:LinearSystem",
    "averaged": "ontodex.models.baselines.averaged:AveragedSystem",
    "dxml": "ontodex.models.dxml.system:DxmlSystem",
    "graphknn": "ontodex.models.graphknn.system:GraphKnnSystem",
    "landmark": "ontodex.models.landmark.system:LandmarkSystem",
    "parabel": "ontodex.models.trees.parabel:ParabelSystem",
    "bonsai": "ontodex.models.trees.parabel:BonsaiSystem",
    "attentionxml": "ontodex.models.attentionxml.system:AttentionXMLSystem",
    "attentive": "ontodex.models.attentive.system:AttentiveSystem",
    "attentive-bert": "ontodex.models.attentive_bert.system:AttentiveBertSystem",
    "xmlrnn": "ontodex.models.attentionxml.xmlrnn:XMLRNNSystem",
    "xmlcnn": "ontodex.models.attentionxml.xmlcnn:XMLCNNSystem",
    "bowcnn": "ontodex.models.rankae.bowcnn:BowCNNSystem",
    "lightattention": "ontodex.models.lightattention.system:LightAttentionSystem",
    "attentive-tree": "ontodex.models.attentive_tree.system:AttentiveTreeSystem",
    "levelwise": "ontodex.models.levelwise.system:Levelwise",
    "attentive-levels": "ontodex.models.attentive_levels.system:AttentiveLevelsSystem",
    "rankae": "ontodex.models.rankae.system:RankAESystem",
    "autoencoder": "ontodex.models.autoencoder.system:AutoencoderSystem",
    "consensus": "ontodex.models.consensus.system:Consensus",
    "auto": "ontodex.models.auto.system:AutoSystem",
}

# Written by a command, not trained.
DERIVED = {"migrated": "ontodex.models.migrated:Migrated"}


def find_model(name: str) -> type[Model]:
    """Return the class of a system.

    Other packages offer systems as entry points of the group `ontodex.models`.
    """
    where = {**MODELS, **DERIVED}.get(name)
    if where is None:
        offered = {point.name: point.value for point in entry_points(group="ontodex.models")}
        where = offered.get(name)
    if where is None:
        raise ConfigError(f"[model] name: there is no system {name!r}{suggest(name, list(MODELS))}")
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)
