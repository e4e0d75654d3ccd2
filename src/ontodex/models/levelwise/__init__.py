"""Deep Level-wise XMLC: one network per level of an ontology, merged by a pointer generator.

The modules in the order of the paper: config, levels (cluster_levels), streams, word_encoder,
pooling, network; pass_data, training, prediction, cross_fitting; thresholds; pointer_network,
pointer_beam_search, pointer, merge; stage_cache, cache_key and run_json; system. Our variant is
models/attentive_levels.
"""
