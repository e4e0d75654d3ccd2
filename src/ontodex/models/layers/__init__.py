"""Layers that at least two systems use.

words (token ids to vectors), recurrent (BiLSTM) with fp16_lstm (its CPU form for wide layers), bag
(the document as a set of words), label_attention, sparse_input (linear layer over sparse features)
and ragged (rows of different lengths on one device).

Axes in every shape comment of `ontodex.models`:

    n documents    t tokens         l labels          c candidates (labels or tree nodes)
    e embedding    d hidden units   v value width     w width of the bag of words
    k ranks        b beam width     g gold labels     m levels
"""
