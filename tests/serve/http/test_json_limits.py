"""Limits of JSON bodies and metadata: each at the limit, and one above it."""

from __future__ import annotations

import json

import pytest

from ontodex.errors import DataError
from ontodex.serve.http.json_limits import (
    BODY,
    MAX_ID,
    MAX_METADATA,
    METADATA,
    JsonLimits,
    check_document,
    check_json,
    check_metadata,
    parse_body,
)
from ontodex.types import Doc

SMALL = JsonLimits(depth=3, values=5, digits=4, characters=6, key_characters=2)


def nest(depth: int, kind: type = dict) -> object:
    value: object = {} if kind is dict else []
    for _ in range(depth - 1):
        value = {"a": value} if kind is dict else [value]
    return value


@pytest.mark.parametrize("value", [nest(3), nest(3, list), [1, 2, 3, 4, 5], "sixsix", {"ab": 1}])
def test_a_value_at_the_limit_is_taken(value):
    check_json(value, SMALL)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (nest(4), "deeper than 3"),
        (nest(4, list), "deeper than 3"),
        ([1, 2, 3, 4, 5, 6], "more than 5 keys"),
        ({"a": [1, 2], "b": [3, 4]}, "more than 5 keys"),
        ("seven77", "more than 6 characters"),
        ({"abc": 1}, "more than 2 characters"),
        ({1: 1}, "type int"),
        (10**5, "more than 4 digits"),
        (float("nan"), "NaN"),
        (float("-inf"), "infinite"),
        (b"x", "type bytes"),
    ],
)
def test_a_value_above_the_limit_is_a_sentence(value, problem):
    with pytest.raises(DataError, match=problem):
        check_json(value, SMALL)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"[" * 1_000_000, "deeper than 32"),
        (b"[" * 100 + b"]" * 100, "deeper than 32"),
        (b'{"a":' * 500_000, "deeper than 32"),
        (b"9" * 100_000, "more than 400 digits"),
        (b"-0." + b"9" * 500, "more than 400 digits"),
        (b"[1e999]", "infinite"),
        (b"[NaN]", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b'{"a": 1, "b": {"c": 1, "d": 2, "c": 3}}', "the key 'c' is given twice"),
    ],
)
def test_a_hostile_body_is_refused(raw, problem):
    with pytest.raises(DataError, match=problem):
        parse_body(raw)


def test_a_body_that_is_no_json_is_a_decode_error():
    with pytest.raises(json.JSONDecodeError):
        parse_body(b"{")


def test_a_body_at_the_limit_is_parsed():
    depth = BODY.depth
    assert parse_body(b"[" * depth + b"]" * depth) == nest(depth, list)
    assert parse_body(b"9" * BODY.digits) == 10**BODY.digits - 1


def test_metadata_is_bounded_in_depth_and_size():
    check_metadata(nest(METADATA.depth))
    with pytest.raises(DataError, match="deeper than 16"):
        check_metadata(nest(METADATA.depth + 1))
    long = {str(i): "x" * 100_000 for i in range(MAX_METADATA // 100_000)}
    with pytest.raises(DataError, match="characters as JSON"):
        check_metadata(long)


@pytest.mark.parametrize(
    "doc",
    [
        Doc("x" * (MAX_ID + 1), {"text": "x"}),
        Doc("", {str(i): "x" for i in range(201)}),
        Doc("", {"x" * 501: "x"}),
        Doc("", {"text": "x"}, ("k",) * 10_001),
        Doc("", {"text": "a\0b"}),
        Doc("", {"text": "x"}, ("\ud800",)),
        Doc("", {"text": "x"}, (), (), {"a": float("nan")}),
    ],
)
def test_a_document_that_cannot_be_stored_is_refused(doc):
    with pytest.raises(DataError):
        check_document(doc)
