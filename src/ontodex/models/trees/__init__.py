"""Trees over the labels.

`parabel` has the systems `parabel` and `bonsai`; `omikuji` trains their `forest`, and `beam_search`
ranks with it. `label_tree` builds the balanced tree of LightAttention with `two_means`.
"""
