"""Find out whether the CPU multiplies matrices of bf16 numbers in hardware.

With such units a product takes a quarter of the time of fp32. Without them oneDNN, PyTorch's
library of products, may end the process at a bf16 product, so it is kept from choosing one.
"""

from __future__ import annotations

import os
from functools import cache

import torch

LIMIT = "ONEDNN_MAX_CPU_ISA"  # oneDNN's own variable: the newest instructions it may use
WITHOUT_BF16 = "AVX512_CORE"


@cache
def has_bf16_units() -> bool:
    """Tell whether bf16 products are fast here. A user who sets ONEDNN_MAX_CPU_ISA has none, so
    that several machines can compute the same numbers."""
    return LIMIT not in os.environ and torch.cpu._is_avx512_bf16_supported()


def limit_onednn() -> None:
    """Keep oneDNN from bf16 products where the CPU has no units for them."""
    if not has_bf16_units():
        os.environ.setdefault(LIMIT, WITHOUT_BF16)
