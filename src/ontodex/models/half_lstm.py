"""A wide LSTM over a few documents on a CPU, its weights read as halves.

A step multiplies a row for each document with all recurrent weights. Those of 512 units, 4 MB, do
not fit into the cache next to a core, and reading them takes longer than multiplying. The weights
of a finished network are halves (decision 6): kept as such they are half as much to read, and
products and sums are fp32 as before. PyTorch has that product where FBGEMM is; elsewhere, and for
weights that are no halves, as in training, the plain layer reads.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

LEAST_UNITS = 384  # 2.4 MB of recurrent weights; fewer stay in the cache
MOST_DOCUMENTS = 4  # more of them make up for reading the weights
MOST_THREADS = 2  # more cores have room for the weights among them, and FBGEMM takes one
ENGINES = ("x86", "fbgemm")

WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")  # of inputs and of states

# By layer: which weights were packed, and what came of it (None: they are no halves).
_kept: WeakKeyDictionary[nn.LSTM, tuple[Any, Any]] = WeakKeyDictionary()


def states(layer: nn.LSTM, x: Tensor) -> Tensor:
    """(n, t, d): what `layer` makes of x (n, t, e), one direction and batch first."""
    halves = packed(layer) if pays(layer, x) else None
    if halves is None:
        return layer(x)[0]
    start = x.new_zeros(1, len(x), layer.hidden_size)
    found: Tensor = torch.ops.aten.quantized_lstm.input(
        x, [start, start], [halves],
        has_biases=True, num_layers=1, dropout=0.0, train=False, bidirectional=False,
        batch_first=True, dtype=torch.float16, use_dynamic=True,
    )[0]  # fmt: skip
    return found


def pays(layer: nn.LSTM, x: Tensor) -> bool:
    return (
        not torch.is_grad_enabled()
        and x.dtype == torch.float32
        and len(x) <= MOST_DOCUMENTS
        and layer.hidden_size >= LEAST_UNITS
        and torch.get_num_threads() <= MOST_THREADS
        and torch.backends.quantized.engine in ENGINES
        # PyTorch means to give up the int8 tensors beside it one day.
        and hasattr(torch.ops.quantized, "make_quantized_cell_params_fp16")
    )


def packed(layer: nn.LSTM) -> Any:
    """The layer's weights as halves, made once and again when they have changed; None where halves
    would be other numbers."""
    weights = [layer.get_parameter(name) for name in WEIGHTS]
    state = [(w.data_ptr(), w._version) for w in weights]
    if layer not in _kept or _kept[layer][0] != state:
        _kept[layer] = state, _pack(*(w.detach() for w in weights))
    return _kept[layer][1]


def _pack(w_in: Tensor, w_state: Tensor, b_in: Tensor, b_state: Tensor) -> Any:
    if not all(torch.equal(w, w.half().float()) for w in (w_in, w_state)):
        return None
    pack = torch.ops.quantized.linear_prepack_fp16
    make = torch.ops.quantized.make_quantized_cell_params_fp16
    return make(pack(w_in, b_in), pack(w_state, b_state))
