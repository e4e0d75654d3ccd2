from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ontodex.errors import RunError
from ontodex.models.weights import extract_weights, load_network, save_network, weight_specs


def make_network(width: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 2))


def test_a_saved_network_computes_the_same_after_loading(tmp_path):
    network = make_network().half().float().eval()
    save_network(tmp_path, "network", network)
    other = make_network()
    nn.init.zeros_(other[0].weight)
    load_network(tmp_path, "network", other)
    x = torch.randn(5, 3)
    assert torch.equal(other.eval()(x), network(x))
    assert all(array.dtype == np.float16 for array in extract_weights(network).values())


def test_a_network_on_the_meta_device_takes_the_loaded_weights(tmp_path):
    network = make_network().half().float()
    save_network(tmp_path, "network", network)
    with torch.device("meta"):
        empty = nn.Sequential(nn.Linear(3, 4), nn.Identity(), nn.Linear(4, 2))
    with pytest.raises(RunError, match="is not expected"):  # batch norm has weights of its own
        load_network(tmp_path, "network", empty)
    save_network(tmp_path, "network", nn.Sequential(network[0], nn.Identity(), network[2]))
    load_network(tmp_path, "network", empty)
    assert torch.equal(empty[0].weight, network[0].weight)
    assert empty[2].bias.device.type == "cpu"


def test_counters_of_batches_are_not_saved():
    network = make_network()
    assert "1.num_batches_tracked" in network.state_dict()
    assert "1.num_batches_tracked" not in extract_weights(network)
    assert weight_specs(network).keys() == extract_weights(network).keys()


def test_weights_of_another_shape_are_refused_with_the_name_of_the_file(tmp_path):
    save_network(tmp_path, "network", make_network())
    with pytest.raises(RunError, match=r"network\.safetensors: tensor '0\.weight' has shape"):
        load_network(tmp_path, "network", make_network(width=5))
