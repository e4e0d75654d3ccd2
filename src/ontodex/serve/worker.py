"""The process that owns the models, and the service's end of the pipe to it.

    python -m ontodex.serve.worker DEVICE NAME=FOLDER ...

Models hold Python's interpreter lock for most of their work; in the service's own process they
would stop it from answering, and above all from refusing, for as long as they compute. So they live
in a process of their own: requests and answers are frames of JSON on its standard input and output.
It ends when its input does, and is started again if it dies.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import numpy as np

from ontodex.errors import ConfigError, DataError, MissingExtraError, OntodexError, RunError
from ontodex.models.base import Ranked, Span
from ontodex.run import Explanation, load
from ontodex.serve.logs import write_json_logs
from ontodex.serve.ranked import Local, Ranker
from ontodex.types import Doc, Ranking

_LENGTH = struct.Struct(">Q")
_ERRORS = {
    kind.__name__: kind
    for kind in (OntodexError, ConfigError, DataError, RunError, MissingExtraError)
}
_RANKED = [one.name for one in dataclasses.fields(Ranked)]
CLOSE_SECONDS = 10
BEHIND = 5  # on a full machine the process that answers and refuses goes first


class LostError(OntodexError):
    """The process with the models died."""

    def __init__(self) -> None:
        super().__init__("the models were lost while they answered; they are loaded again")


class Worker:
    """The service's end. One thread at a time may ask."""

    def __init__(self, folders: Mapping[str, Path], *, device: str = "cpu") -> None:
        pairs = [f"{name}={folder.resolve()}" for name, folder in folders.items()]
        # -P: a file in the working folder must not stand in for a library of its name.
        self._command = [sys.executable, "-P", "-m", "ontodex.serve.worker", device, *pairs]
        self._process = self._start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, message: Any) -> Any:
        """What the process answers; where it dies over it, a LostError."""
        if not self.is_alive:
            self._process = self._start()
        try:
            _send(_pipe(self._process.stdin), message)
            answer = _receive(_pipe(self._process.stdout))
        except (BrokenPipeError, EOFError):
            self.close()
            raise LostError from None
        if "error" in answer:
            kind, text, hint = answer["error"]
            if kind not in _ERRORS:
                raise RuntimeError(f"{kind} in the process of the models")
            raise _ERRORS[kind](text, hint=hint)
        return answer

    def close(self) -> None:
        """Let the process end."""
        with self._process as process:  # waits, and closes the pipes
            _pipe(process.stdin).close()
            try:
                process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            _receive(_pipe(process.stdout))  # the word that all is loaded
        except EOFError:
            with process:  # waits, and closes the pipes
                hint = "its message stands above"
                raise RunError("the process that loads the runs ended", hint=hint) from None
        return process


class Remote:
    """A run whose model is in the other process."""

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker, self._name = worker, name

    def rank(self, docs: list[Doc]) -> Ranked:
        answer = self._worker.ask({"run": self._name, "rank": [_row(doc) for doc in docs]})
        return Ranked(*(_ranking(answer[name]) for name in _RANKED))

    def explain(self, doc: Doc, label: str | None) -> Explanation:
        found = self._worker.ask({"run": self._name, "explain": _row(doc), "label": label})
        return Explanation(**{**found, "spans": [Span(*span) for span in found["spans"]]})


def _row(doc: Doc) -> list[Any]:
    return [doc.id, dict(doc.fields), list(doc.keywords), dict(doc.metadata)]


def _doc(row: list[Any]) -> Doc:
    id_, fields, keywords, metadata = row
    return Doc(id_, fields, tuple(keywords), (), metadata)


def _packed(ranking: Ranking) -> list[Any]:
    """The two arrays, bit for bit."""
    arrays = (ranking.columns.astype("<i4"), ranking.probabilities.astype("<f4"))
    return [len(ranking), *(base64.b64encode(array.tobytes()).decode() for array in arrays)]


def _ranking(packed: list[Any]) -> Ranking:
    n, columns, probabilities = packed
    return Ranking(
        np.frombuffer(base64.b64decode(columns), "<i4").reshape(n, -1),
        np.frombuffer(base64.b64decode(probabilities), "<f4").reshape(n, -1),
    )


def _send(file: IO[bytes], message: Any) -> None:
    data = json.dumps(message).encode()
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def _receive(file: IO[bytes]) -> Any:
    """The next frame; EOFError where there is none."""
    head = file.read(_LENGTH.size)
    data = file.read(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else b""
    if not data:
        raise EOFError
    return json.loads(data)


def _pipe(file: IO[bytes] | None) -> IO[bytes]:
    assert file is not None
    return file


# ----------------------------------------------------------------------------- the other process


def answer(runs: Mapping[str, Ranker], message: dict[str, Any]) -> dict[str, Any]:
    """What a run says to a message."""
    run = runs[message["run"]]
    if "rank" in message:
        ranked = run.rank([_doc(row) for row in message["rank"]])
        return {name: _packed(getattr(ranked, name)) for name in _RANKED}
    found = run.explain(_doc(message["explain"]), message["label"])
    spans = [[span.start, span.end, span.weight] for span in found.spans]
    return {**{f.name: getattr(found, f.name) for f in dataclasses.fields(found)}, "spans": spans}


def described(error: BaseException) -> dict[str, Any]:
    """An error as an answer; of a bug only its name, for its text may be a document's."""
    if isinstance(error, OntodexError):
        return {"error": [type(error).__name__, str(error), error.hint]}
    return {"error": [type(error).__name__, "", ""]}


def main(device: str, pairs: list[str]) -> None:
    """Load the runs, say so, answer until the input ends."""
    # The service decides when this ends, also when a signal is meant for the whole group.
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    os.nice(BEHIND)
    write_json_logs()
    runs = {}
    for pair in pairs:
        name, _, folder = pair.partition("=")
        runs[name] = Local(load(folder, device=device))
        runs[name].rank([Doc("", {"text": "warm"}, ("warm",))])
    _leave_a_core()
    _send(target, {"ready": True})
    with ThreadPoolExecutor(1) as thread:  # a future holds any error there is
        while True:
            try:
                message = _receive(source)
            except EOFError:
                return
            future = thread.submit(answer, runs, message)
            error = future.exception()
            _send(target, future.result() if error is None else described(error))


def _leave_a_core() -> None:
    """Networks compute on all cores but one, which answers requests."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except OntodexError as error:
        sys.stderr.write(f"ontodex: {error}\n")
        raise SystemExit(2) from None
