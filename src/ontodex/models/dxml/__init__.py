"""DXML: document embeddings near the mean of their label vectors, and nearest neighbours.

In order: `targets` turns label vectors into targets, `network` embeds documents, `clusters` finds
nearest neighbours, `system` is the paper. `neighbour_system` and `network_system` have what our
variants (models/graphknn, models/landmark) share with it. The label graph is in
`ontodex.features.label_graph`.
"""
