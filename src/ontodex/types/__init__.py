"""The types that pass between packages, one file each. All of them are immutable.

    Doc          one document: id, text fields in order, keywords, labels, metadata (or features)
    Corpus       many documents, on disk and memory-mapped: text, sparse or dense features
    Ontology     concepts: names, synonyms, parents (a graph without cycles), categories
    LabelSpace   column <-> concept id, with training frequency and the Ontology if there is one
    Ranking      the prediction of every system: (documents x k) columns and probabilities

Words used everywhere: a *label* is a concept id (a string), a *column* its number, *gold* the
sparse matrix of true labels.
"""

from ontodex.types.corpus import Corpus
from ontodex.types.doc import Doc, Kind
from ontodex.types.label_space import LabelSpace
from ontodex.types.ontology import Ontology
from ontodex.types.ranking import PADDING, Ranking

__all__ = ["PADDING", "Corpus", "Doc", "Kind", "LabelSpace", "Ontology", "Ranking"]
