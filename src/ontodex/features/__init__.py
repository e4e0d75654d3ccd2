"""Text to numbers: a corpus is tokenised once, everything after that works on arrays.

    Corpus - tokens -+- vocabulary - batches            (networks; `vectors` of the words)
                     +- tfidf - matrix                  (linear systems, neighbours, label trees)

`cache` saves results beside the corpus; `prepare` writes a folder for a machine that has only the
core. `phrases` extracts keywords, `languages` has stop words and lemmas, `label_graph` and
`skip_gram` compute label vectors.
"""
