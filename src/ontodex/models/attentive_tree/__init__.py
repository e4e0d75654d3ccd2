"""Label attention down a label tree, our variant of LightAttention.

The search down the tree, its training and the tables of nodes are those of models/lightattention.
"""
