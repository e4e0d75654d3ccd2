"""Several processes of the service on one PostgreSQL: one is killed, and versions are switched."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import requests

from ontodex.runs.update import update
from ontodex.runs.versions import name_version
from ontodex.types import Corpus, Doc
from patience import PATIENCE

pytestmark = pytest.mark.slow
N_REPLICAS = 3
CLIENTS = 8
ENOUGH = 30  # acknowledged decisions of each replica
NEWTS = Corpus.of(
    Doc(f"n{i}", {"text": f"newts brake in wet moss {i}"}, (), ("newt",)) for i in range(6)
)
BODY = {"documents": [{"text": "newts brake in wet moss"}], "limit": 1}


@pytest.fixture
def replicas(launch, postgres, run_folder, tmp_path):
    """Three replicas that started at the same time, and the run folder that they share."""
    folder = Path(shutil.copytree(run_folder, tmp_path / "small"))
    with ThreadPoolExecutor(N_REPLICAS) as pool:
        starting = [
            pool.submit(launch, "--watch", "0.1", database=postgres, folder=folder)
            for _ in range(N_REPLICAS)
        ]
        return [one.result() for one in starting], folder


class BalancedClient:
    """A client that goes round the replicas. It repeats a request that was not answered."""

    def __init__(self, replicas, name):
        self.name, self.acknowledged, self.statuses = name, [], Counter()
        self._turns, self._session = itertools.cycle(enumerate(replicas)), requests.Session()

    def decide(self, number):
        """Send one decision until a replica acknowledges it."""
        wanted = {"document": 1, "label": "fish", "verdict": "accept"}
        body = {"decisions": [{**wanted, "request_id": f"{self.name}-{number}"}]}
        for at, replica in self._turns:
            try:
                answer = self._session.post(
                    replica.address + "/decisions", json=body, timeout=PATIENCE
                )
            except requests.RequestException:
                self.statuses["none"] += 1
                continue
            self.statuses[answer.status_code] += 1
            if answer.status_code == 201:
                (row,) = answer.json()["decisions"]
                self.acknowledged.append((at, row["id"], row["request_id"]))
                return

    def decide_until(self, is_over):
        for number in itertools.count():
            if is_over.is_set():
                return
            self.decide(number)


def read_log(replica):
    """Return the ids of all decisions with their request ids."""
    found, after = {}, 0
    while rows := replica.get(f"/decisions?limit=1000&after={after}").json()["decisions"]:
        found |= {row["id"]: row["request_id"] for row in rows}
        after = rows[-1]["id"]
    return found


def test_no_acknowledged_decision_is_lost_when_a_replica_is_killed(replicas):
    servers, _ = replicas
    assert [len(one.get("/projects").json()["projects"]) for one in servers] == [1, 1, 1]
    servers[0].post("/documents", json={"documents": [{"text": "trout"}]})
    assert servers[2].get("/documents/1").status_code == 200
    clients = [BalancedClient(servers, name) for name in range(CLIENTS)]
    is_over = Event()

    def wait_until_enough(wanted):
        """Wait until the wanted replicas have acknowledged more decisions."""
        done = sum(len(client.acknowledged) for client in clients)
        while True:
            new = [at for client in clients for at, *_ in client.acknowledged[:]][done:]
            if all(new.count(at) >= ENOUGH for at in wanted):
                return

    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(client.decide_until, is_over) for client in clients]
        try:
            wait_until_enough((0, 1, 2))
            servers[1].process.kill()
            wait_until_enough((0, 2))
        finally:
            is_over.set()
        for one in working:
            one.result()
    found = read_log(servers[0])
    assert found == read_log(servers[2])
    acknowledged = {id_: request for client in clients for _, id_, request in client.acknowledged}
    assert acknowledged.items() <= found.items()
    assert len(set(found.values())) == len(found), "a repeated request was written once"
    statuses = sum((client.statuses for client in clients), Counter())
    assert set(statuses) <= {201, 503, "none"}
    assert all("Traceback" not in servers[at].log.read_text() for at in (0, 2))


def test_replicas_change_versions_without_a_lost_request(replicas):
    servers, folder = replicas
    is_over = Event()

    def ask(server):
        answers = []
        while not is_over.is_set():
            answer = server.post("/suggest", json=BODY)
            answers.append((answer.status_code, answer.ok and get_label(answer)))
        return answers

    def get_label(answer):
        return answer.json()["results"][0]["suggestions"][0]["label"]

    def wait_for(version):
        for server in servers:
            while server.get("/runs").json()["runs"][0]["version"] != version:
                pass

    with ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(ask, server) for server in servers for _ in range(2)]
        try:
            old = name_version(folder)
            update(folder, NEWTS)
            wait_for(name_version(folder))
            restored = servers[1].post("/runs/small/versions/previous/restore")
            assert restored.json()["version"] == old
            wait_for(old)
        finally:
            is_over.set()
        answers = [answer for one in asking for answer in one.result()]
    assert {status for status, _ in answers} == {200}
    assert {label for _, label in answers} == {"http://e.org/road", "newt"}
    for server in servers:
        server.process.terminate()
    assert [server.process.wait(PATIENCE) for server in servers] == [0, 0, 0]
