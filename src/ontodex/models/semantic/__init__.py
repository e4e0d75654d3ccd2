"""Concepts found by the meaning of their names: no training document is needed.

text_vectors (texts to vectors of one length), system (similarity of documents and names).
"""
