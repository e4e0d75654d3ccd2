"""LightAttention: label attention over the candidate labels that a label tree proposes.

config, scorers (how nodes of a level score a document), node_tables (their parameters), network
(Figure 1), beam_search (down the tree, in ranking and in training), training (Algorithm 2) and
system. The tree itself is in models/trees/label_tree.py.
"""
