"""Skip-gram with negative sampling over walks, in torch (Mikolov et al. 2013).

The objective is gensim's; the steps are large, as suits a GPU. 200,000 labels take a minute there,
and an hour on one core.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NEGATIVES = 5  # per pair, as in word2vec
_SHARED = 128  # negatives that all pairs of a step share, weighted to count as NEGATIVES each
_STEPS = 100  # least number per pass
_LARGEST = 2**15  # most positions on walks per step
_LR = 0.02


def train_skip_gram(
    walks: NDArray[np.int32],
    n_nodes: int,
    *,
    size: int,
    window: int,
    passes: int,
    seed: int,
    device: str = "cpu",
) -> NDArray[np.float32]:
    """Return (nodes, size) vectors; nodes within `window` steps of each other get similar ones.

    On the CPU the same walks and seed give the same bits.
    """
    import torch

    torch.manual_seed(seed)
    inner = ((torch.rand(n_nodes, size) - 0.5) / size).to(device).requires_grad_()
    outer = torch.zeros(n_nodes, size, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([inner, outer], lr=_LR)
    weight = np.bincount(walks.ravel(), minlength=n_nodes).astype(np.float64) ** 0.75
    marks = torch.from_numpy(np.cumsum(weight) / weight.sum()).to(device)
    rows = max(1, min(_LARGEST, walks.size // _STEPS) // walks.shape[1])
    starts = range(0, len(walks), rows)
    random = np.random.default_rng(seed)
    for done in range(passes):
        order = random.permutation(len(walks))
        for number, start in enumerate(starts):
            left = 1 - (done + number / len(starts)) / passes
            optimizer.param_groups[0]["lr"] = _LR * max(left, 0.01)
            step = torch.from_numpy(walks[order[start : start + rows]].astype(np.int64)).to(device)
            loss = _loss(inner, outer, step, marks, window)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return np.asarray(inner.detach().cpu().numpy(), dtype=np.float32)


def _loss(inner: Any, outer: Any, step: Any, marks: Any, window: int) -> Any:
    """Return the mean of -log s(u v) over pairs and -log s(-u v') over their negatives."""
    import torch
    import torch.nn.functional as F

    u, v = inner[step], outer[step]  # (walks, places, e)
    # As in word2vec, each position has a random window, so that near pairs count more.
    reach = torch.randint(1, window + 1, step.shape, device=step.device)
    place = torch.arange(step.shape[1], device=step.device)
    distance = (place[:, None] - place).abs()  # (places, places)
    sees = (distance > 0) & (distance <= reach[:, :, None])  # (walks, places, places)
    pairs = sees.sum(-1)  # (walks, places)
    # One product for all places of a walk, though few pairs count: far cheaper than pair by pair.
    true = (F.softplus(-(u @ v.transpose(1, 2))) * sees).sum()
    drawn = torch.searchsorted(marks, torch.rand(_SHARED, device=step.device, dtype=marks.dtype))
    others = outer[drawn.clamp(max=len(outer) - 1)]
    false = F.softplus(u @ others.T).mean(-1)  # (walks, places)
    return (true + NEGATIVES * (pairs * false).sum()) / pairs.sum().clamp(min=1)
