"""Several label autoencoders that also learn from the prediction itself: our variant of Rank-AE."""
