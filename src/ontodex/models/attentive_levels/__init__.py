"""Label attention level by level of an ontology, our variant of Deep Level-wise XMLC.

config, network, system. Levels, streams, cross-fitting, thresholds, pointer generator and merging
are those of models/levelwise.
"""
