from __future__ import annotations

import json

import numpy as np
import pytest

from ontodex.decide.array_json import ArrayJson, decode_array, encode_array


def test_only_columns_that_differ_from_the_commonest_value_are_written():
    stored = encode_array(np.array([0.5, 0.25, 0.5, 0.5]))
    assert stored == {"columns": 4, "usual": 0.5, "at": [1], "values": [0.25]}


@pytest.mark.parametrize("values", [[], [3], [0, 0, 2, 1], [1, 2, 3]])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_an_array_comes_back_through_json(values, dtype):
    array = np.array(values, dtype=dtype)
    stored = ArrayJson(**json.loads(json.dumps(encode_array(array))))
    again = decode_array(stored, len(array), dtype)
    assert again.dtype == dtype
    assert again.tolist() == array.tolist()


@pytest.mark.parametrize("change", [{"columns": 3}, {"usual": -1.0}, {"values": [float("inf")]}])
def test_an_array_of_another_size_or_with_impossible_values_is_refused(change):
    stored = {"columns": 2, "usual": 0.5, "at": [1], "values": [0.1]} | change
    with pytest.raises(ValueError, match=r"labels|negative"):
        decode_array(ArrayJson(**stored), 2, np.float64)
