"""Metrics of rankings and label sets, and the report of a run.

`ranking` (P@k, nDCG@k, PSP@k ...), `sets` (micro and macro P, R, F), `hierarchical`, `groups` (by
frequency and level), `auc` (by occurrence), `reliability` (calibration) and `significance` compute
metrics. `metrics` computes all of them at once; `label_table`, `plots` and `report` present them.
"""
