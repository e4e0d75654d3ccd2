"""Texts that make a regular expression slow: parts of what it matches, repeated, and a bad end.

A pattern that may divide a text in several ways compares them all before it gives up. So each text
is a beginning that the pattern accepts, a part of a match many times, and an end that fails. Run as
a program, this module matches each pattern of standard input with its texts, under a limit of
processor time and memory for each text; the system ends it at the first text over the limit.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

Tokens = tuple[str, ...]

SIZE = 40_000  # characters of a text
LONGEST = 4  # times this size is a text of a long repeated part
SECONDS = (
    0.25  # of processor time: linear matching takes a millisecond, quadratic half a second and more
)
MOST_BYTES = 10  # a character; a pattern that keeps every character to go back to takes 60 to 160
OUT_OF_MEMORY = 3  # exit status
CHARACTERS = "aZ1 \t\n.-_\"'<>[](){}:/\\,;|\u00e9"
MOST_SAMPLES = 20
LONGEST_UNIT = 4  # tokens


def make_texts(pattern: str, flags: int) -> Iterator[tuple[str, str, str]]:
    """Yield (beginning, part to repeat, end) of texts, each once."""
    seen = set()
    for sample in _make_samples(parser.parse(pattern, flags)):
        for start in range(len(sample)):
            for stop in range(start + 1, min(len(sample), start + LONGEST_UNIT) + 1):
                for end in ("", "\n\0"):
                    text = "".join(sample[:start]), "".join(sample[start:stop]), end
                    if text not in seen:
                        seen.add(text)
                        yield text


def _make_samples(parts: Sequence[tuple[Any, Any]]) -> list[Tokens]:
    """Return texts that a parsed pattern matches, about one for each choice that it has."""
    choices = [_list_choices(*part) for part in _join_literals(parts)]
    first = [choice[0] for choice in choices]
    samples = [first]
    for place, choice in enumerate(choices):
        samples += [[*first[:place], other, *first[place + 1 :]] for other in choice[1:]]
    joined = (tuple(chain.from_iterable(sample)) for sample in samples)
    return list(dict.fromkeys(joined))[:MOST_SAMPLES]


def _join_literals(parts: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield the parts with each word as one literal."""
    word = ""
    for code, value in parts:
        if code is codes.LITERAL:
            word += chr(value)
            continue
        if word:
            yield codes.LITERAL, word
            word = ""
        yield code, value
    if word:
        yield codes.LITERAL, word


def _list_choices(code: Any, value: Any) -> list[Tokens]:
    """Return texts that one part of a pattern matches."""
    if code is codes.LITERAL:
        return [(value,)]
    if code is codes.NOT_LITERAL:
        return [(one,) for one in "a1 -" if ord(one) != value]
    if code is codes.ANY:
        return [("a",), (".",)]
    if code is codes.IN:
        return [(one,) for one in _list_members(value)]
    if code is codes.BRANCH:
        return [sample for branch in value[1] for sample in _make_samples(branch)]
    if code is codes.SUBPATTERN:
        return _make_samples(value[-1])
    if code is codes.ATOMIC_GROUP:
        return _make_samples(value)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, body = value
        samples = _make_samples(body)
        repeated = [sample * min(max(least, 1), 3) for sample in samples]
        if most > 1:
            repeated += [samples[0] + sample for sample in samples[:4]]
        return [*repeated[:1], *([()] if least == 0 else []), *repeated[1:]]
    return [()]  # a position, or what must or must not follow


def _list_members(members: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return some characters of a class, with different kinds among them."""
    ends = [chr(v if c is codes.LITERAL else v[0]) for c, v in members if c in _NAMED]
    fitting = [one for one in dict.fromkeys([*CHARACTERS, *ends]) if _is_member(one, members)]
    return fitting[:6] or ends[:1]


_NAMED = (codes.LITERAL, codes.RANGE)
_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


def _is_member(one: str, members: Sequence[tuple[Any, Any]]) -> bool:
    is_negated, is_listed = False, False
    for code, value in members:
        if code is codes.NEGATE:
            is_negated = True
        elif code is codes.LITERAL:
            is_listed |= ord(one) == value
        elif code is codes.RANGE:
            is_listed |= value[0] <= ord(one) <= value[1]
        else:
            is_listed |= re.match(_CATEGORIES[value], one) is not None
    return is_listed != is_negated


@dataclass(frozen=True)
class Used:
    """A pattern, the place of its definition, and the methods with which it is used."""

    pattern: str | bytes
    flags: int
    methods: tuple[str, ...]
    place: str


METHODS = ("match", "fullmatch", "search", "finditer")
_SAME = dict.fromkeys(("sub", "subn", "split", "findall"), "finditer")  # all go through the text


def list_patterns(package: Any) -> list[Used]:
    """Return all patterns of a package, by import and from calls such as re.sub(PATTERN, ...).

    Imported are all modules with their globals, the attributes of their classes and what those
    hold. A pattern that no call names is tried with every method.
    """
    names = [
        found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    modules = [module for name in names if (module := _import(name)) is not None]
    trees = {module.__name__: ast.parse(inspect.getsource(module)) for module in modules}
    used: dict[tuple[str | bytes, int, str], Used] = {}
    for module in modules:
        for name, pattern in _find_patterns(module):
            searched = [trees[module.__name__]] if name.startswith("_") else list(trees.values())
            methods = {method for tree in searched for method in _find_methods(tree, name)}
            key = pattern.pattern, pattern.flags, ""
            place = f"{module.__name__}.{name}"
            known = used.get(key)
            both = methods | set(known.methods if known else ())
            used[key] = Used(*key[:2], tuple(sorted(both)), known.place if known else place)
        for call in _find_calls(trees[module.__name__]):
            method = _SAME.get(call.func.attr, call.func.attr)  # type: ignore[attr-defined]
            pattern = re.compile(call.args[0].value)  # type: ignore[attr-defined]
            key = pattern.pattern, pattern.flags, method
            used.setdefault(key, Used(*key[:2], (method,), f"{module.__name__}:{call.lineno}"))
    return [replace(one, methods=one.methods or METHODS) for one in used.values()]


def _import(name: str) -> ModuleType | None:
    if name.endswith("__main__"):  # it would run
        return None
    try:
        return importlib.import_module(name)
    except ImportError:  # of an extra that is not installed
        return None


def _find_patterns(module: ModuleType) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield the patterns of a module's globals, with the name under which each is used."""
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__:
            members = vars(value).items()
        else:
            members = {name: value}.items()
        for inner, held in members:
            yield from ((inner, one) for one in _unfold(held, depth=3))


def _unfold(value: Any, depth: int) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns that a value is or holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, list | tuple | set | frozenset):
        yield from (one for held in value for one in _unfold(held, depth - 1))
    elif depth and isinstance(value, dict):
        yield from _unfold([*value.keys(), *value.values()], depth - 1)
    elif depth and is_dataclass(value) and not isinstance(value, type):
        yield from _unfold([getattr(value, one.name, None) for one in fields(value)], depth - 1)


def _find_methods(tree: ast.AST, name: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and (method := _SAME.get(node.attr, node.attr)) in METHODS
        ):
            owner = node.value
            if name in (getattr(owner, "id", None), getattr(owner, "attr", None)):
                yield method


def _find_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield calls of the functions of `re` with a pattern written on the spot."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and getattr(node.func.value, "id", None) == "re"
            and _SAME.get(node.func.attr, node.func.attr) in METHODS
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node


def find_slow(patterns: Sequence[Used]) -> list[str]:
    """Return a sentence for each pattern that takes long or much memory for one of its texts.

    A text must fail twice: a machine may be busy.
    """
    jobs = [
        [
            one.pattern if isinstance(one.pattern, str) else one.pattern.decode("latin-1"),
            one.flags,
            isinstance(one.pattern, bytes),
            one.methods,
        ]
        for one in patterns
    ]
    texts = [
        (which, *text)
        for which, (pattern, flags, _, _) in enumerate(jobs)
        for text in make_texts(pattern, flags)  # type: ignore[arg-type]
    ]
    found, first, failed = [], 0, -1
    while first < len(texts):
        number, status = _run_child([jobs, *texts[first:]])
        if status == 0:
            return found
        first += number
        if failed != first:
            failed = first
            continue
        which, *text = texts[first]
        used = patterns[which]
        what = "memory" if status == OUT_OF_MEMORY else "time"
        found.append(f"{used.place}: {used.pattern!r} takes too much {what} for {text}")
        first = next((i for i, one in enumerate(texts) if one[0] > which), len(texts))
    return found


def _run_child(lines: Sequence[Any]) -> tuple[int, int]:
    """Return the number of the last text that was matched, and the status of the process."""
    done = subprocess.run(
        [sys.executable, __file__],
        input="\n".join(map(json.dumps, lines)),
        capture_output=True,
        text=True,
        # Large blocks of memory are new ones, so that all of them count.
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    if done.returncode not in (0, OUT_OF_MEMORY, -signal.SIGPROF):
        raise RuntimeError(done.stderr)
    return int(done.stdout.split()[-1]), done.returncode


def match_all() -> None:
    """Match the texts of standard input; write the number of each before it is matched.

    The first line is a list of [pattern, flags, is bytes, methods], each further line [number of
    the pattern, beginning, part, end].
    """
    patterns = [
        (re.compile(text.encode("latin-1") if is_bytes else text, flags), is_bytes, methods)
        for text, flags, is_bytes, methods in json.loads(sys.stdin.readline())
    ]
    text = "x" * LONGEST * SIZE  # the memory of a text itself is not counted
    most = _get_peak() + MOST_BYTES * SIZE
    for number, (which, beginning, part, end) in enumerate(map(json.loads, sys.stdin)):
        pattern, is_bytes, methods = patterns[which]
        # Quadratic matching of n parts takes n^2 steps of the length of a part.
        times = int(SIZE * min(len(part) ** -0.5, LONGEST / len(part)))
        text = beginning + part * times + end
        for method in methods:
            print(number, flush=True)
            match = getattr(pattern, method)
            given = text.encode("latin-1") if is_bytes else text
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # its signal ends the process
            deque(match(given) or () if method == "finditer" else (match(given),), maxlen=0)
            signal.setitimer(signal.ITIMER_PROF, 0)
        if _get_peak() > most:
            sys.exit(OUT_OF_MEMORY)


def _get_peak() -> int:
    """Return the largest memory that this process has had, in bytes.

    Not that of getrusage, which counts the memory of the process that started this one.
    """
    if not Path("/proc/self/status").exists():
        return 0
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    match_all()
