"""Real processes: stopped in the middle, killed while they write, sent too much."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from ontodex.errors import ConfigError
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import NewDecision
from ontodex.types import Doc

pytestmark = pytest.mark.slow
BODY = {"documents": [{"text": "trout in the stream"}]}


def test_sigterm_answers_what_was_accepted(launch):
    server = launch("--batch", "1", "--queue", "1000")
    statuses: list[int | None] = []

    def ask(_: int) -> int | None:
        try:
            return server.post("/suggest", json=BODY).status_code
        except requests.ConnectionError:
            return None  # it was not accepted any more

    with ThreadPoolExecutor(24) as pool:
        waiting = [pool.submit(ask, i) for i in range(200)]
        while sum(future.done() for future in waiting) < 20:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        statuses = [future.result() for future in waiting]
    assert server.process.wait(120) == 0
    assert statuses.count(200) >= 20
    # Nothing that was taken failed: an answer, or no connection at all.
    assert set(statuses) <= {200, None}
    assert "Traceback" not in server.log.read_text()


def test_models_that_die_are_loaded_again(launch, descendants):
    server = launch()
    first = server.post("/suggest", json=BODY)
    (models,) = descendants(server.process.pid)
    os.kill(models, signal.SIGKILL)
    statuses = [server.post("/suggest", json=BODY).status_code for _ in range(3)]
    assert set(statuses[:2]) <= {200, 503}
    assert statuses[2] == 200
    assert server.post("/suggest", json=BODY).json() == first.json()
    assert server.get("/readyz").status_code == 200
    assert descendants(server.process.pid) != [models]


def test_models_end_with_the_service_however_it_ends(launch, descendants):
    server = launch()
    (models,) = descendants(server.process.pid)
    os.kill(models, signal.SIGTERM)  # meant for a whole group, it is not theirs to obey
    assert server.post("/suggest", json=BODY).status_code == 200
    server.process.kill()
    for _ in range(2_400):
        if not Path(f"/proc/{models}").exists():
            return
        time.sleep(0.05)
    raise AssertionError("the process with the models is still there")


@pytest.mark.parametrize("attempt", range(3))
def test_every_acknowledged_decision_survives_kill_9(launch, tmp_path, attempt):
    server = launch()
    assert server.post("/documents", json={"documents": [{"text": "trout"}]}).status_code == 201
    acknowledged: list[int] = []
    stop = threading.Event()

    def decide(writer: int) -> None:
        session = requests.Session()
        for i in range(10_000):
            wanted = {"document": 1, "label": "fish", "verdict": "accept"}
            wanted["request_id"] = f"{writer}-{i}"
            try:
                answer = session.post(
                    server.address + "/decisions", json={"decisions": [wanted]}, timeout=120
                )
            except requests.RequestException:
                return
            if answer.status_code == 201:
                acknowledged.append(answer.json()["decisions"][0]["id"])
            if stop.is_set():
                return

    threads = [threading.Thread(target=decide, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 20 * (attempt + 1):
        time.sleep(0.005)
    server.process.kill()
    stop.set()
    for thread in threads:
        thread.join()
    again = launch()
    found = {d["id"] for d in again.get("/decisions?limit=1000").json()["decisions"]}
    assert set(acknowledged) <= found
    assert again.get("/readyz").status_code == 200


def test_a_body_of_500_mb_is_refused_without_memory(launch):
    server = launch()
    host, port = server.address.removeprefix("http://").split(":")
    before = memory(server.process.pid)
    head = f"POST /suggest HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    # By its length, and in chunks that do not tell it.
    assert send(host, int(port), head + "Content-Length: 500000000\r\n\r\n", b" " * 2**20) == 413
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    assert send(host, int(port), head + "Transfer-Encoding: chunked\r\n\r\n", chunk) == 413
    assert memory(server.process.pid) - before < 50 * 2**20
    assert server.get("/healthz").status_code == 200


def send(host: str, port: int, head: str, piece: bytes) -> int:
    """The status of a request of 500 pieces, sent until the server has answered."""
    with socket.create_connection((host, port), timeout=120) as connection:
        connection.sendall(head.encode())
        try:
            for _ in range(500):
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass
        answer = b""
        while b"\r\n" not in answer:
            answer += connection.recv(4096)
    return int(answer.split()[1])


def memory(pid: int) -> int:
    """The most memory that the process has held, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_a_port_in_use_is_a_sentence(run_folder, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "ontodex", "serve", str(run_folder), "--port", port]
        done = subprocess.run(
            [*command, "--database", "d.sqlite"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert f"ontodex: 127.0.0.1:{port} cannot be bound" in done.stderr
    assert "Traceback" not in done.stderr


def test_postgresql_keeps_what_sqlite_keeps(postgres, launch):
    for _ in range(1_200):
        try:
            database = Database.open(postgres)
            break
        except ConfigError as error:  # it may still be starting
            if "starting up" not in str(error):
                raise
            time.sleep(0.1)
    numbers = database.add_documents([Doc("a", {"text": "trout"})] * 3, batch="b", user="ada")
    assert numbers == [1, 2, 3]
    written = [NewDecision(1, "fish", "accept", request_id="r"), NewDecision(2, "oak", "reject")]
    first = database.write_decisions(written, user="ada")
    assert database.write_decisions(written[:1], user="ada") == first[:1]
    database.undo_decision(first[1]["id"], user="ada")
    assert [v["label"] for v in database.find_verdicts([1, 2])[1]] == ["fish"]
    assert database.find_verdicts([2])[2] == []
    database.store_suggestions(3, "small", "key", {"ranked": [["fish", 0.5]], "chosen": []})
    database.close()
    server = launch(database=postgres)
    suggest = server.post("/documents/3/suggest", json={})
    assert suggest.json()["suggestions"][0]["label"] == "fish"
    with ThreadPoolExecutor(8) as pool:  # the same request from many at once is written once
        wanted = {"document": 3, "label": "fish", "verdict": "accept", "request_id": "same"}
        body = {"decisions": [wanted]}
        answers = list(pool.map(lambda _: server.post("/decisions", json=body), range(16)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["decisions"][0]["id"] for answer in answers}) == 1
    assert server.get("/status").json()["documents"] == {"n_open": 3, "n_done": 0}
