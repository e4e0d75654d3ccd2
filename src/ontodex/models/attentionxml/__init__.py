"""AttentionXML without a label tree, and the two networks its paper compares it with.

config and network (label attention over a BiLSTM), system (training and explanations), xmlrnn (the
same encoder with max pooling), xmlcnn (convolutions). Our variant is models/attentive.
"""
