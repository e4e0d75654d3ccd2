"""Rank-AE, an autoencoder of label sets trained with a ranking loss, and a baseline of its paper.

weighted_words (documents as words with weights), network (the figure of the paper), loss (its
equations), config, system (training and explanations), bowcnn (the baseline BoW-CNN). Our variant
is in models/autoencoder.
"""
