"""The rules that join the probabilities of several systems into one.

    any    P = 1 - prod (1 - P_i)^w_i         AttentionXML, Eq. 9
    odds   weighted mean of log-odds          a label needs the support of every member
    mean   weighted mean of probabilities

Each rule is a sum over members: evidence, 0 for a label that a member does not rank, times weight.
More evidence is a higher probability, so the sum is enough to order the labels of a document.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Floats = NDArray[np.float64]
Join = Literal["any", "odds", "mean"]
JOINS: tuple[Join, ...] = ("any", "odds", "mean")

FLOOR = 0.01  # least probability whose log-odds are taken; lower ones are not reliable
_FLOOR_ODDS = float(logit(FLOOR))


def compute_evidence(p: Floats, join: Join) -> Floats:
    """Return the evidence of a member's probabilities, 0 or more."""
    if join == "any":
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log1p(-p))  # inf for P = 1
    if join == "odds":
        return np.asarray(logit(np.clip(p, FLOOR, 1 - 1e-6)) - _FLOOR_ODDS)
    return p


def compute_probability(total: Floats, total_weight: Floats, join: Join) -> Floats:
    """Return the probability of summed evidence.

    `total_weight` is the sum of the weights of all members that know the label.
    """
    if join == "any":
        return np.asarray(-np.expm1(-total))
    mean = total / total_weight
    return np.asarray(expit(mean + _FLOOR_ODDS)) if join == "odds" else mean
