"""Wide LSTMs over a few documents on a CPU, with weights in fp16.

A step multiplies one row a document with all recurrent weights. Those of 512 units (4 MB) exceed
the cache of a core, and reading them takes longer than multiplying. Weights of a trained network
are fp16 numbers already, so packed as fp16 they are half as much to read; products and sums stay
fp32. PyTorch has this product where it has FBGEMM. Elsewhere, and for weights that are not fp16
numbers (as in training), the plain layer runs.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

MIN_UNITS = 384  # 2.4 MB of recurrent weights; fewer stay in the cache
MAX_DOCUMENTS = 4  # a larger batch makes up for reading the weights
MAX_THREADS = 2  # more cores share the weights among their caches, and FBGEMM uses one thread
ENGINES = ("x86", "fbgemm")

WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")

# Of each layer: the state of the weights that were packed, and the packed weights (None: the
# weights are not fp16 numbers).
_packed: WeakKeyDictionary[nn.LSTM, tuple[Any, Any]] = WeakKeyDictionary()


def run_lstm(layer: nn.LSTM, x: Tensor) -> Tensor:
    """Return the states (n, t, d) of a one-way, batch-first LSTM for x (n, t, e)."""
    weights = pack_weights(layer) if is_faster(layer, x) else None
    if weights is None:
        return layer(x)[0]
    start = x.new_zeros(1, len(x), layer.hidden_size)
    states: Tensor = torch.ops.aten.quantized_lstm.input(
        x, [start, start], [weights],
        has_biases=True, num_layers=1, dropout=0.0, train=False, bidirectional=False,
        batch_first=True, dtype=torch.float16, use_dynamic=True,
    )[0]  # fmt: skip
    return states


def is_faster(layer: nn.LSTM, x: Tensor) -> bool:
    """Tell whether fp16 weights are faster for this layer and input, and available."""
    return (
        not torch.is_grad_enabled()
        and x.dtype == torch.float32
        and len(x) <= MAX_DOCUMENTS
        and layer.hidden_size >= MIN_UNITS
        and torch.get_num_threads() <= MAX_THREADS
        and torch.backends.quantized.engine in ENGINES
        # PyTorch plans to remove its quantized tensors; this function may go with them.
        and hasattr(torch.ops.quantized, "make_quantized_cell_params_fp16")
    )


def pack_weights(layer: nn.LSTM) -> Any:
    """Return the layer's weights packed as fp16, cached until they change; None where fp16 would
    change their values."""
    weights = [layer.get_parameter(name) for name in WEIGHTS]
    state = [(w.data_ptr(), w._version) for w in weights]
    if layer not in _packed or _packed[layer][0] != state:
        _packed[layer] = state, _pack(*(w.detach() for w in weights))
    return _packed[layer][1]


def _pack(w_in: Tensor, w_state: Tensor, b_in: Tensor, b_state: Tensor) -> Any:
    if not all(torch.equal(w, w.half().float()) for w in (w_in, w_state)):
        return None
    pack = torch.ops.quantized.linear_prepack_fp16
    make = torch.ops.quantized.make_quantized_cell_params_fp16
    return make(pack(w_in, b_in), pack(w_state, b_state))
