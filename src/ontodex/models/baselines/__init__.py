"""Systems without a deep network, as a baseline for the others.

`popularity` ranks by frequency; `lexical` finds names of concepts (`name_trie`); `knn` asks the
nearest documents (`neighbours`); `kernel` is kernel ridge regression (`landmarks`); `linear` is
one-vs-rest; `averaged` is a linear network on averaged embeddings.
"""
