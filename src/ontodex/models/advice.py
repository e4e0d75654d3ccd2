"""One line of advice for each system: what it is, and when to use it."""

from __future__ import annotations

from ontodex.models import MODELS

ADVICE = {
    "auto": "start here: finds and joins the systems below that suit your documents, within a time",
    "linear": "the strongest single system on a CPU; one classifier for each label",
    "bonsai": "wide label trees: faster than linear with tens of thousands of labels",
    "parabel": "deep label trees: the fastest to train with very many labels",
    "semantic": "compares names and texts by meaning; needs a pretrained encoder",
    "lexical": "finds names of concepts in texts; knows concepts without training documents",
    "kernel": "kernel regression: for up to ten thousand documents, trained in seconds",
    "knn": "labels of the most similar documents; takes new documents without training",
    "consensus": "joins runs that you have trained; --runs chooses among them",
    "attentive-bert": "the strongest single system: a pretrained encoder; needs a GPU or patience",
    "attentive": "label attention and a bag of words; needs a GPU and ten thousand documents",
    "attentive-tree": "label attention down a label tree: a GPU and very many labels",
    "attentive-levels": "label attention level by level of an ontology; predicts sets; a GPU",
    "levelwise": "Deep Level-wise XMLC as in its paper; attentive-levels is our variant",
    "landmark": "neighbours in a space found by kernel regression; for small corpora of features",
    "graphknn": "neighbours in a space learned by networks; takes new documents without training",
    "autoencoder": "auto-encoders of label sets, for noisy labels",
    "attentionxml": "AttentionXML as in its paper; attentive is our variant",
    "lightattention": "LightAttention as in its paper; attentive-tree is our variant",
    "rankae": "the Rank-AE paper as written; autoencoder is our variant",
    "dxml": "the DXML paper as written; graphknn and landmark are our variants",
    "averaged": "averaged word vectors: a simple network to compare with",
    "xmlrnn": "a baseline of the attentionxml paper: a BiLSTM with max pooling",
    "xmlcnn": "a baseline of the attentionxml paper: convolutions with dynamic pooling",
    "bowcnn": "a baseline of the rankae paper: convolutions over bags of words",
    "popularity": "the most frequent labels for every document: the floor of any comparison",
}


def list_systems() -> dict[str, str]:
    """Return the advice for every system, the ones to try first first.

    >>> systems = ontodex.list_systems()
    >>> systems["popularity"]
    'the most frequent labels for every document: the floor of any comparison'
    """
    return ADVICE | {name: "see docs/papers" for name in MODELS if name not in ADVICE}
