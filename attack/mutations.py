"""Change files: a few bytes or tokens, or a small file made large in a hostile way.

mutate      one to four changes of bytes, tokens, lines, numbers or blocks; a part repeated up to
            the size of a small file, with an end that does not fit, which slow patterns are slow at
inflate     a token repeated, a record copied with some of its words counted, brackets nested
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from random import Random

from attack.grammar import Files

# Tokens that mean something to a reader; mutations insert them anywhere.
TOKENS = (
    b"<MedlineCitation ", b"<PMID", b"</PMID>", b"<PMID Version='1'>", b"<DeleteCitation>", b"<!--",
    b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE x [", b"&amp;", b"&#0;", b"&x;", b"<?x", b"?>", b"<a>",
    b"</a>", b"{", b"}", b"[", b"]", b"\"", b"'", b"\\", b"\\u0000", b"\\ud800", b":", b",", b";",
    b"\t", b"\n", b"\r\n", b"\r", b" ", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\xe2\x80\xa8",
    b"null", b"true", b"NaN", b"Infinity", b"1e400", b"9" * 30, b"-0", b"__label__", b"::", b"/SEP/",
    b"@prefix ", b"@base ", b"_:b", b"^^<x>", b"@en", b"\"\"\"", b" a ", b" .", b" ;", b"#", b"[Term]",
    b"id: ", b"is_a: ", b"*NEWRECORD", b"MN = ", b"A01.1", b"\"id\":", b"\"@context\":", b"\"@id\":",
    b"\"concepts\": [\n", b"]}", b"uri,label_en", b"%00", b"%ff", b"<http://e/x>", b"skos:Concept",
    b"\"articles\":[", b"\"names\":{", b"\"parents\":[", b"\"labels\":[", b"0:1", b"1 2 3",
)  # fmt: skip


SMALL = 2**16  # bytes of a small file
# What many patterns cannot match after a repeated part.
ENDS = (b"", b"\0", b" <", b"\n\0", b"x", b"\n", b" \0\n")


def mutate(files: Files, r: Random, other: bytes) -> Files:
    """Return the files with one to four changes in one of them; `other` is spliced in at times."""
    name = r.choice(list(files))
    data = files[name]
    for _ in range(r.randrange(1, 5)):
        data = r.choice(MUTATIONS)(data, r, other)
    if r.random() < 0.03:
        data = gzip.compress(data)[: r.choice((None, -4, 12))]
    return {**files, name: data[:SMALL]}


def _spot(data: bytes, r: Random) -> tuple[int, int]:
    start = r.randrange(len(data) + 1)
    return start, min(len(data), start + int(r.expovariate(1 / 8)) + 1)


def _delete(data: bytes, r: Random, other: bytes) -> bytes:
    start, stop = _spot(data, r)
    return data[:start] + data[stop:]


def _insert(data: bytes, r: Random, other: bytes) -> bytes:
    start, _ = _spot(data, r)
    return data[:start] + r.choice(TOKENS) * r.choice((1, 1, 1, 2, 30)) + data[start:]


def _flip(data: bytes, r: Random, other: bytes) -> bytes:
    start, _ = _spot(data, r)
    return data[:start] + bytes([r.randrange(256)]) + data[start + 1 :]


def _repeat(data: bytes, r: Random, other: bytes) -> bytes:
    start, stop = _spot(data, r)
    return data[:start] + data[start:stop] * r.choice((2, 3, 50)) + data[stop:]


def _splice(data: bytes, r: Random, other: bytes) -> bytes:
    start, stop = _spot(data, r)
    first, last = sorted(_spot(other, r))
    return data[:start] + other[first:last] + data[stop:]


def _cut(data: bytes, r: Random, other: bytes) -> bytes:
    return data[: r.randrange(len(data) + 1)]


def _move_line(data: bytes, r: Random, other: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(r.randrange(len(lines) + 1), r.choice(lines))
    if r.random() < 0.5:
        del lines[r.randrange(len(lines))]
    return b"\n".join(lines)


def _pump(data: bytes, r: Random, other: bytes) -> bytes:
    start, stop = _spot(data, r)
    part = data[start:stop] if data[start:stop] and r.random() < 0.7 else r.choice(TOKENS)
    rest = r.choice((data[stop:], b"", b"\n" + data[stop:]))
    number = r.choice((30, (SMALL - start) // len(part)))
    return data[:start] + part * number + r.choice(ENDS) + rest


_NUMBER = re.compile(rb"\d+")


def _change_number(data: bytes, r: Random, other: bytes) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    match = r.choice(found)
    new = r.choice((b"0", b"-1", b"4294967296", b"9" * 25, b"1e999", b"0x1", b"1.5", b"\xd9\xa3"))
    return data[: match.start()] + new + data[match.end() :]


MUTATIONS = (
    *(_delete, _insert, _insert, _flip, _repeat, _splice, _cut, _move_line, _change_number, _pump),
)

_PIECE = re.compile(rb"<[^<>\s]*|\w+|\s+|.", re.DOTALL)
_WORD = re.compile(rb"[^\W\d_]\w*")
_PAIRS = ((b"[", b"]"), (b"{", b"}"), (b'{"a":', b"}"), (b"<a>", b"</a>"), (b"(", b")"))


def inflate(data: bytes, size: int, r: Random) -> Iterator[tuple[str, bytes]]:
    """Yield (description, large file) of about `size` bytes, made from a small valid file."""
    pieces = _PIECE.findall(data)
    for _ in range(3):
        at = r.randrange(len(pieces))
        width = r.choice((1, 1, 2, 3))
        unit = b"".join(pieces[at : at + width]) or b" "
        before, after = b"".join(pieces[:at]), b"".join(pieces[at + width :])
        bad = r.choice(ENDS)
        for end, name in ((after, "inside"), (b"", "at the end"), (bad + after, f"before {bad!r}")):
            yield f"{unit[:40]!r} repeated {name}", before + unit * (size // len(unit)) + end
    token = r.choice(TOKENS)
    at = r.randrange(len(data) + 1)
    yield f"token {token!r} repeated", data[:at] + token * (size // len(token)) + data[at:]
    opening, closing = r.choice(_PAIRS)
    depth = size // (len(opening) + len(closing))
    yield f"{opening!r} nested", data[:at] + opening * depth + closing * depth + data[at:]
    for first, last in _blocks(data):
        yield from _copies(data, first, last, size, r)


def _blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield places of records that can be repeated: lines, and the text between brackets."""
    ends = [match.end() for match in re.finditer(rb"\n", data)]
    if len(ends) > 1:
        yield ends[-2], ends[-1]
        yield ends[0], ends[1]
    for opening, closing in ((b"{", b"}"), (b"[", b"]"), (b"<", b">")):
        start = data.rfind(opening)
        stop = data.find(closing, start + 1)
        if 0 <= start < stop:
            yield start + 1, stop


def _copies(
    data: bytes, first: int, last: int, size: int, r: Random
) -> Iterator[tuple[str, bytes]]:
    """Yield the block repeated; as it is, and with one or two of its words counted."""
    block = data[first:last]
    if not block:
        return
    comma = b"" if block.endswith(b"\n") else b","
    number = size // (len(block) + 6) + 1
    yield f"block {block[:40]!r} repeated", data[:first] + (block + comma) * number + data[last:]
    words = list(_WORD.finditer(block))
    for n_words in (1, 2, 2):
        chosen = sorted(r.sample(words, min(n_words, len(words))), key=lambda match: match.start())
        if not chosen:
            return
        template, at = b"", 0
        for which, match in enumerate(chosen):
            template += block[at : match.end()].replace(b"%", b"%%") + (b"%d", b"%d")[which]
            at = match.end()
        template += block[at:].replace(b"%", b"%%") + comma
        counts = [(i, i + 1)[: len(chosen)] for i in range(number)]
        body = b"".join(template % count for count in counts)
        names = b" and ".join(match[0] for match in chosen)
        yield f"block {block[:40]!r} with {names[:40]!r} counted", data[:first] + body + data[last:]
