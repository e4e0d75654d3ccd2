"""DXML: document embeddings near the mean of their label vectors, and nearest neighbours.

In order: `targets` turns label vectors into targets, `network` embeds documents, `clusters` finds
nearest neighbours, `system` joins them. The label graph is in `ontodex.features.label_graph`.
"""
