"""Random values for requests: documents, metadata and bodies, good and hostile."""

from __future__ import annotations

import json
import random
from typing import Any

WORDS = (
    "trout", "swim", "cold", "stream", "old", "oaks", "forest", "cars", "brake", "road", "Fische",
    "straße", "鱼", "🐟", "e\u0301",
)  # fmt: skip
ODD = ("", " ", "\u2028", "\u202e", "\ufeff", "a" * 3000, "<script>", "=1+1", "'; --", "%00", "\\")
NAMES = ("title", "abstract", "body", "text")


def make_text(rng: random.Random) -> str:
    """Return some words, with odd characters among them now and then."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 12))]
    if rng.random() < 0.2:
        words.insert(rng.randrange(len(words)), rng.choice(ODD))
    return " ".join(words)


def make_json(rng: random.Random, depth: int) -> Any:
    """Return a random JSON value of at most this depth."""
    kind = rng.randrange(9 if depth > 0 else 6)
    match kind:
        case 0:
            return rng.choice((None, True, False))
        case 1:
            return rng.choice((0, -1, 2**53, 10**300, -(2**63), rng.randrange(1000)))
        case 2:
            return rng.choice((0.0, -0.0, 1e-300, 1.7e308, rng.random()))
        case 3 | 4 | 5:
            return make_text(rng)
        case 6:
            return [make_json(rng, depth - 1) for _ in range(rng.randint(0, 4))]
        case _:
            return {make_key(rng): make_json(rng, depth - 1) for _ in range(rng.randint(0, 4))}


def make_key(rng: random.Random) -> str:
    return rng.choice(("year", "", "a.b", "__proto__", "text", "🐟", "x" * 400, str(rng.random())))


def make_document(rng: random.Random) -> dict[str, Any]:
    """Return a document that the service must take."""
    document: dict[str, Any] = {rng.choice(NAMES): "trout " + make_text(rng)}
    if rng.random() < 0.5:
        document["id"] = rng.choice((f"id-{rng.randrange(50)}", "../x", "a" * 500, "é\t\u202e"))
    if rng.random() < 0.3:
        document["fields"] = {"summary": make_text(rng), "notes": ""}
    if rng.random() < 0.3:
        document["keywords"] = [make_text(rng) for _ in range(rng.randint(0, 5))]
    if rng.random() < 0.4:
        depth = rng.choice((1, 3, 6, 14))
        document["metadata"] = {make_key(rng): make_json(rng, depth) for _ in range(3)}
    return document


def nest(rng: random.Random, depth: int) -> str:
    """Return JSON text of this depth, of objects or arrays."""
    if rng.random() < 0.5:
        return '{"a":' * depth + "1" + "}" * depth
    return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def make_hostile_document(rng: random.Random) -> str:
    """Return the JSON text of a document at the limits or beyond; it may be no JSON at all."""
    metadata = rng.choice(
        (
            nest(rng, rng.choice((15, 16, 17, 30, 31, 100, 254, 255, 256, 257, 300, 990, 5000))),
            '{"a": ' + "9" * rng.choice((399, 400, 401, 4300, 4301, 50_000)) + "}",
            '{"a": 1e999}',
            '{"a": NaN}',
            '{"a": -Infinity}',
            '{"a": 0.' + "1" * rng.choice((300, 5000)) + "}",
            '{"a": "\\ud800"}',
            '{"\\u0000": 1}',
            '{"a": ' + json.dumps(list(range(rng.choice((9_990, 10_001, 100_000))))) + "}",
            json.dumps({"k" * rng.choice((500, 501, 5000)): 1}),
            json.dumps({str(i): 1 for i in range(rng.choice((9_990, 10_001)))}),
            json.dumps({"a": "x" * rng.choice((999_900, 1_000_001))}),
            '{"a": 1, "a": {"b": 2}}',
            "[]",
            "null",
            '{"a": ',
            "{" * 3000,
        )
    )
    text = rng.choice(('"trout"', '"\\u0000"', '"\\udfff"', "1", "null", '""', '"🐟"', '{"a": 1}'))
    if rng.random() < 0.7:
        text = '"trout"'
    return f'{{"text": {text}, "metadata": {metadata}}}'


def mutate(rng: random.Random, raw: bytes) -> bytes:
    """Return a body with one to three changed pieces."""
    body = bytearray(raw)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(body) + 1)
        piece = rng.choice(
            (b"", b"{", b"]", b'"', b"\xff", b"\0", b"1e9", b"null", b"\\ud800", b",")
        )
        body[at : at + rng.randint(0, 6)] = piece
    return bytes(body)
