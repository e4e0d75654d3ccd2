"""Stage 3, text to numbers: tokens once, everything after them is array work.

    Corpus ─ tokens ─┬─ vocabulary ─ batches            (neural systems; vectors for the words)
                     └─ tfidf ─ matrix                  (linear systems, neighbours, label trees)

`cache` keeps results beside the corpus, `prepare` makes a folder that travels to a machine that has
only the core, `phrases` and `languages` know about words.
"""
