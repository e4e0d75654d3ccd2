"""Truth: how good rankings and label sets are.

ranking       P@k, R@k, RP@k, nDCG@k, PSP@k, PSnDCG@k: one number per document each
sets          micro, macro, per-document and per-label P, R, F; P and R by threshold
groups        the same by training frequency and level; AUC and AUPR by occurrence; every label
hierarchical  P, R, F with ancestors added; near misses
calibration   what probabilities claim and what comes true
compare       overlap, average ranks, Wilcoxon, bootstrap intervals
metrics       all of it at once
report        report.html
"""

from ontodex.evaluate.metrics import Metrics, evaluate

__all__ = ["Metrics", "evaluate"]
