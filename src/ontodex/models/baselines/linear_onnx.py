"""The system `linear` as an ONNX graph, from the tokens of one document to its probabilities.

    tokens ─ count of each term ─ TF-IDF ─ sum of value x weight per label ─ sigmoid ─ calibration
      (t)          (d)              (d)                (l)                     (l)         (l)

Weights stay sparse: one value, row and column for each that is not 0. A dense matrix of 100,000
terms and 4,000 labels would be larger than a file of ONNX may be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError, require
from ontodex.features.tfidf import Tfidf

OPSET = 18
IR_VERSION = 9  # that of OPSET, so that runtimes of 2023 read the file
INPUT, OUTPUT = "tokens", "probabilities"
_FLOAT, _INT32, _DOUBLE = 1, 6, 11  # types of ONNX


class _Graph:
    """Nodes and constants of a graph while it is built."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: NDArray[Any]) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(values, name))
        return name

    def apply(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"{operator}_{len(self.nodes)}"
        node = self._onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self.nodes.append(node)
        return name


def build_model(tfidf: Tfidf, weights: csr_array, calibration: Calibration) -> bytes:
    """Return the ONNX file of a classifier with weights (terms + bias, labels)."""
    onnx = require("onnx", extra="onnx", purpose="exporting to ONNX")
    if not tfidf.terms:
        raise RunError("the run has no terms, so there is nothing to export")
    if tfidf.config.compounds:
        raise RunError(
            "the run splits compounds, which ONNX has no operator for",
            hint="train it with --set model.compounds=false to export it",
        )
    graph = _Graph(onnx)
    values = _add_tfidf(graph, tfidf)
    scores = _add_scores(graph, values, weights)
    _add_calibration(graph, graph.apply("Sigmoid", scores), calibration)
    helper, kinds = onnx.helper, onnx.TensorProto
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "ontodex_linear",
            [helper.make_tensor_value_info(INPUT, kinds.STRING, ["n_tokens"])],
            [helper.make_tensor_value_info(OUTPUT, kinds.FLOAT, [weights.shape[1]])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="ontodex",
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _add_tfidf(graph: _Graph, tfidf: Tfidf) -> str:
    """Add the counts of terms, their weights, and the length of the document."""
    words = [term for term in tfidf.terms if " " not in term]
    pairs = [part for term in tfidf.terms if " " in term for part in term.split(" ")]
    tokens = INPUT
    if tfidf.config.max_length:
        first, end = (graph.constant(np.array([n])) for n in (0, tfidf.config.max_length))
        tokens = graph.apply("Slice", INPUT, first, end)
    counts = graph.apply(
        "TfIdfVectorizer",
        tokens,
        mode="TF",
        min_gram_length=1,
        max_gram_length=2 if pairs else 1,
        max_skip_count=0,
        ngram_counts=[0, len(words)] if pairs else [0],
        ngram_indexes=list(range(len(tfidf.terms))),
        pool_strings=[word.encode() for word in (*words, *pairs)],
    )
    one = graph.constant(np.array([1], np.float32))
    if tfidf.config.sublinear_tf:
        logarithm = graph.apply("Log", graph.apply("Max", counts, one))
        present = graph.apply("Min", counts, one)
        counts = graph.apply("Mul", present, graph.apply("Add", logarithm, one))
    values = graph.apply("Mul", counts, graph.constant(tfidf.idf.astype(np.float32)))
    if not tfidf.config.norm:
        return values
    squares = graph.apply("ReduceSumSquare", values, keepdims=1)
    smallest = graph.constant(
        np.array([1e-30], np.float32)
    )  # a document without known terms stays 0
    return graph.apply("Div", values, graph.apply("Sqrt", graph.apply("Max", squares, smallest)))


def _add_scores(graph: _Graph, values: str, weights: csr_array) -> str:
    """Add twice the score of each label, which the sigmoid turns into a probability."""
    terms = weights[:-1].tocoo()
    doubled = np.float32(2)
    products = graph.apply(
        "Mul",
        graph.apply("Gather", values, graph.constant(terms.row.astype(np.int32))),
        graph.constant(terms.data.astype(np.float32) * doubled),
    )
    bias = graph.constant(weights[[-1]].toarray()[0].astype(np.float32) * doubled)
    columns = graph.constant(terms.col.astype(np.int32))
    return graph.apply("ScatterElements", bias, columns, products, axis=0, reduction="add")


def _add_calibration(graph: _Graph, scores: str, calibration: Calibration) -> None:
    """Add the line through the knots of the calibration: in each piece a start and a slope."""
    x = np.array([0.0, *calibration.scores, 1.0])
    y = np.array([0.0, *calibration.shares, 1.0])
    scores = graph.apply("Cast", scores, to=_DOUBLE)  # knots may be closer than 32 bits tell
    column = graph.apply("Unsqueeze", scores, graph.constant(np.array([1])))  # (l, 1)
    above = graph.apply("GreaterOrEqual", column, graph.constant(x[None, 1:-1]))  # (l, knots)
    numbers = graph.apply("Cast", above, to=_INT32)
    piece = graph.apply("ReduceSum", numbers, graph.constant(np.array([1])), keepdims=0)
    starts, slopes = graph.constant(x[:-1]), graph.constant(np.diff(y) / np.diff(x))
    levels = graph.constant(y[:-1])
    beyond = graph.apply("Sub", scores, graph.apply("Gather", starts, piece))
    rise = graph.apply("Mul", beyond, graph.apply("Gather", slopes, piece))
    calibrated = graph.apply("Add", rise, graph.apply("Gather", levels, piece))
    graph.apply("Cast", calibrated, to=_FLOAT, output=OUTPUT)
