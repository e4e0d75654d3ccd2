"""Label attention over a pretrained encoder with a bag of words."""
