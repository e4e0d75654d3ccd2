"""Label attention and a bag of words, our variant of AttentionXML: config, network, system."""
