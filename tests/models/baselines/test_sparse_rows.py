from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from ontodex.models.baselines.sparse_rows import (
    add_bias,
    multiply_rows,
    score_all,
    to_csr,
    transpose_weights,
)


def make_rows(n: int, seed: int) -> csr_array:
    rng = np.random.default_rng(seed)
    return csr_array(random_array((n, 60), density=0.1, format="csr", rng=rng, dtype=np.float32))


@pytest.mark.parametrize("n", [1, 3, 40])
def test_products_have_the_same_bits_whichever_side_is_dense(n):
    rows, weights = make_rows(40, 1), make_rows(30, 2)
    together = multiply_rows(rows, weights)
    np.testing.assert_array_equal(score_all(rows[:n], transpose_weights(weights)), together[:n])
    np.testing.assert_array_equal(multiply_rows(rows[:n], weights), together[:n])
    np.testing.assert_allclose(together, (rows @ weights.T).toarray(), atol=1e-6)


def test_the_bias_is_a_last_column_of_ones():
    rows = make_rows(5, 3)
    found = add_bias(rows).toarray()
    np.testing.assert_array_equal(found[:, :-1], rows.toarray())
    assert found[:, -1].tolist() == [1] * 5


def test_features_of_any_kind_become_sorted_float_rows():
    dense = np.array([[0, 2], [3, 0]], np.int64)
    duplicated = csr_array(
        (np.array([1.0, 1.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    for matrix in (dense, duplicated):
        rows = to_csr(matrix)
        assert (rows.dtype, rows.indices.dtype) == (np.float32, np.int32)
        assert rows.nnz == 2
        np.testing.assert_array_equal(rows.toarray(), dense)
