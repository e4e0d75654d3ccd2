"""The process that holds the models, and the pipe to it.

    python -m ontodex.serve.prediction.model_process DEVICE NAME=FOLDER ...

Models hold Python's interpreter lock for most of their work. In the service's own process they
would block every answer, above all refusals, while they compute. So they run in a process of their
own: requests and answers are JSON frames on its standard input and output. The process ends when
its input ends, and it is started again if it dies.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
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
from ontodex.io.files import hash_file
from ontodex.runs.run import load
from ontodex.serve.http.json_log import write_json_logs
from ontodex.serve.prediction.ranker import LocalRanker, Ranker
from ontodex.types import Doc, Ranking
from ontodex.types.answers import Explanation, PredictionResult, Span

logger = logging.getLogger(__name__)

_LENGTH = struct.Struct(">Q")
_ERRORS = {
    kind.__name__: kind
    for kind in (OntodexError, ConfigError, DataError, RunError, MissingExtraError)
}
_RANKINGS = [one.name for one in dataclasses.fields(PredictionResult)]
CLOSE_SECONDS = 10
NICENESS = 5  # on a busy machine the process that answers and refuses has priority


class ModelProcessDiedError(OntodexError):
    """The process with the models died while it answered."""

    def __init__(self) -> None:
        super().__init__(
            "the process with the models died while it answered; it is started again",
            hint="send the request again",
        )


class ModelProcess:
    """The service's end of the pipe. One thread at a time may send a request."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        *,
        device: str = "cpu",
        manifests: Mapping[str, str] | None = None,  # digests of the versions to load; None: any
    ) -> None:
        self._manifests, self._is_closed = manifests, False
        pairs = [f"{name}={folder.resolve()}" for name, folder in folders.items()]
        # -P: a file in the working folder must not shadow a library of the same name.
        self._command = [
            sys.executable,
            "-P",
            "-m",
            "ontodex.serve.prediction.model_process",
            device,
            *pairs,
        ]
        self._process = self._start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def request(self, message: Any) -> Any:
        """Send a message and return the answer. If the process dies, raise
        ModelProcessDiedError; the next request starts it again."""
        if self._is_closed:
            raise ModelProcessDiedError
        if not self.is_alive:
            self._process = self._start()
        try:
            _send(_require_pipe(self._process.stdin), message)
            answer = _receive(_require_pipe(self._process.stdout))
        except (BrokenPipeError, EOFError):
            self._end(self._process)
            raise ModelProcessDiedError from None
        if "error" in answer:
            kind, text, hint = answer["error"]
            if kind not in _ERRORS:
                raise RuntimeError(f"{kind} in the process of the models")
            raise _ERRORS[kind](text, hint=hint)
        return answer

    def close(self) -> None:
        """End the process for good; kill it if it does not end in time."""
        self._is_closed = True
        self._end(self._process)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        with process:  # waits, and closes the pipes
            _require_pipe(process.stdin).close()
            try:
                process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        # Our own module and the paths of runs, without a shell.
        process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe)  # noqa: S603
        try:
            pipe_out = _require_pipe(process.stdout)
            while "loading" in (ready := _receive(pipe_out)):
                logger.info("loading the model of %s", ready["loading"])
        except EOFError:
            with process:  # waits, and closes the pipes
                raise RunError(
                    "the process that loads the runs ended", hint="its message stands above"
                ) from None
        if self._manifests is not None and ready["manifests"] != dict(self._manifests):
            self._end(process)
            raise RunError("a run folder changed while it was loaded", hint="try again")
        return process


class RemoteRanker:
    """A run whose model is in the other process."""

    def __init__(self, process: ModelProcess, name: str) -> None:
        self._process, self._name = process, name

    def predict(self, docs: list[Doc]) -> PredictionResult:
        message = {"run": self._name, "predict": [_encode_doc(doc) for doc in docs]}
        answer = self._process.request(message)
        return PredictionResult(*(_decode_ranking(answer[name]) for name in _RANKINGS))

    def explain(self, doc: Doc, label: str | None) -> Explanation:
        message = {"run": self._name, "explain": _encode_doc(doc), "label": label}
        answer = self._process.request(message)
        return Explanation(**{**answer, "spans": [Span(*span) for span in answer["spans"]]})


def _encode_doc(doc: Doc) -> list[Any]:
    return [doc.id, dict(doc.fields), list(doc.keywords), dict(doc.metadata)]


def _decode_doc(row: list[Any]) -> Doc:
    id_, fields, keywords, metadata = row
    return Doc(id_, fields, tuple(keywords), (), metadata)


def _encode_ranking(ranking: Ranking) -> list[Any]:
    """Return the number of rows and the two arrays, bit for bit."""
    arrays = (ranking.columns.astype("<i4"), ranking.probabilities.astype("<f4"))
    return [len(ranking), *(base64.b64encode(array.tobytes()).decode() for array in arrays)]


def _decode_ranking(encoded: list[Any]) -> Ranking:
    n, columns, probabilities = encoded
    return Ranking(
        np.frombuffer(base64.b64decode(columns), "<i4").reshape(n, -1),
        np.frombuffer(base64.b64decode(probabilities), "<f4").reshape(n, -1),
    )


def _send(file: IO[bytes], message: Any) -> None:
    data = json.dumps(message).encode()
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def _receive(file: IO[bytes]) -> Any:
    """Return the next frame; raise EOFError if there is none."""
    head = file.read(_LENGTH.size)
    data = file.read(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else b""
    if not data:
        raise EOFError
    return json.loads(data)


def _require_pipe(file: IO[bytes] | None) -> IO[bytes]:
    assert file is not None
    return file


def answer_message(runs: Mapping[str, Ranker], message: dict[str, Any]) -> dict[str, Any]:
    """Answer one message, in the process with the models."""
    run = runs[message["run"]]
    if "predict" in message:
        result = run.predict([_decode_doc(row) for row in message["predict"]])
        return {name: _encode_ranking(getattr(result, name)) for name in _RANKINGS}
    explanation = run.explain(_decode_doc(message["explain"]), message["label"])
    return {
        **{one.name: getattr(explanation, one.name) for one in dataclasses.fields(explanation)},
        "spans": [[span.start, span.end, span.weight] for span in explanation.spans],
    }


def encode_error(error: BaseException) -> dict[str, Any]:
    """Return an error as an answer. Of a bug only the type is sent: its text may be a document."""
    if isinstance(error, OntodexError):
        return {"error": [type(error).__name__, str(error), error.hint]}
    return {"error": [type(error).__name__, "", ""]}


def main(device: str, pairs: list[str]) -> None:
    """Load the runs, report readiness, and answer messages until the input ends."""
    # The service ends this process, also when a signal was sent to the whole process group.
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints must not mix with the answers
    os.nice(NICENESS)
    write_json_logs()
    runs, manifests = {}, {}
    for number, pair in enumerate(pairs, start=1):
        name, _, folder = pair.partition("=")
        _send(target, {"loading": f"{name} ({number} of {len(pairs)})"})
        manifests[name] = hash_file(Path(folder) / "manifest.json")
        runs[name] = LocalRanker(load(folder, device=device))
        if hash_file(Path(folder) / "manifest.json") != manifests[name]:
            raise RunError(f"{folder}: changed while it was loaded", hint="try again")
        runs[name].predict([Doc("", {"text": "warm"}, ("warm",))])  # the first call is slow
    _reserve_core()
    _send(target, {"manifests": manifests})
    with ThreadPoolExecutor(1) as thread:  # a future holds any kind of error
        while True:
            try:
                message = _receive(source)
            except EOFError:
                return
            future = thread.submit(answer_message, runs, message)
            error = future.exception()
            _send(target, future.result() if error is None else encode_error(error))


def _reserve_core() -> None:
    """Leave one core to the process that answers requests."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except OntodexError as error:
        sys.stderr.write(f"ontodex: {error}\n")
        raise SystemExit(2) from None
