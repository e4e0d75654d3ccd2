"""The optional abilities of systems, and which system has which."""

from __future__ import annotations

import pytest

from ontodex.models import MODELS, find_model, interface
from ontodex.models.interface import Decides, Describes, Explains, Model, Refits, Updates

ABILITIES: dict[str, set[type]] = {
    "popularity": {Refits},
    "lexical": {Explains, Refits},
    "semantic": {Explains},
    "attentive-bert": {Explains},
    "knn": {Explains, Refits, Updates},
    "kernel": {Explains, Refits},
    "linear": {Explains, Refits},
    "averaged": {Refits},
    "dxml": {Explains, Refits, Updates},
    "graphknn": {Explains, Refits, Updates},
    "landmark": {Explains, Refits, Updates},
    "parabel": {Explains, Refits},
    "bonsai": {Explains, Refits},
    "attentionxml": {Explains},
    "attentive": {Explains},
    "xmlrnn": set(),
    "xmlcnn": set(),
    "bowcnn": set(),
    "lightattention": {Explains},
    "attentive-tree": {Explains},
    "levelwise": {Decides, Describes, Explains},
    "attentive-levels": {Decides, Describes, Explains},
    "rankae": {Explains, Refits},
    "autoencoder": {Explains, Refits},
    "consensus": {Describes, Explains},
    "auto": {Describes, Explains, Refits},
}


def test_there_are_at_most_six_optional_protocols():
    protocols = {
        thing
        for thing in vars(interface).values()
        if getattr(thing, "_is_protocol", False) and thing.__module__ == interface.__name__
    }
    assert Model in protocols
    assert len(protocols - {Model}) <= 6


@pytest.mark.parametrize("name", MODELS)
def test_a_system_has_the_abilities_it_is_known_for(name):
    asked = {Decides, Describes, Explains, Refits, Updates}
    model_class = find_model(name)
    found = {ability for ability in asked if issubclass(model_class, ability)}
    assert found == ABILITIES[name]
    attends = Explains in found and model_class.attend is not Explains.attend
    assert attends == (name in {"attentionxml", "attentive", "attentive-bert"})
