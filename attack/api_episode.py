"""One episode of the API fuzzing: random steps against one service, with a model of its answers."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attack.api_clients import ApiRequest, AsgiClient, ProcessClient
from attack.api_routes import RouteSteps
from attack.api_session import (
    BATCHES,
    DELETED,
    USERS,
    BrokenPromiseError,
    StoredDocument,
)
from attack.api_values import NAMES, make_document, make_hostile_document, make_text, mutate, nest
from attack.campaign import Finding
from attack.service import LABELS, UNUSED

CONTENT_TYPES = (
    *("application/json",) * 6,
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "é", "a/b;c"),
)
OTHERS = (
    "/runs", "/runs/small", "/me", "/ontology", "/ontology/children?label=nature", "/readyz",
    "/ontology/concept?label=fish&language=de", "/ontology/paths?label=oak", "/healthz",
    "/ontology/search?q=fsh", "/v1/vocabs", "/v1/projects/small", "/openapi.json", "/quarantine",
)  # fmt: skip
FORMATS = ("jsonl", "csv", "annif-tsv", "skos", "marc")
UPLOADS = (
    ("a.txt", "Forelle im Bächlein".encode("utf-16")),
    ("b.txt", "Forelle im Bächlein".encode("latin-1")),
    ("c.jsonl", b'{"id": "1", "text": "trout", "metadata": {"a": [1, {"b": null}]}}\n'),
    ("d.jsonl", b'{"text": "trout", "metadata": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}\n"),
    ("e.jsonl", b'{"text": "trout", "metadata": {"a": NaN, "b": 1e999}}\n'),
    ("f.csv", b"id,text,year\n1,trout in streams,1978\n2,oaks,\n"),
    ("g.html", b"<p>trout<script>x</script>" * 50),
    ("h.docx", b"PK\x03\x04 nonsense"),
    ("i.exe", b"MZ"),
)


class Episode(RouteSteps):
    """Random steps against one service with an empty database."""

    def __init__(self, run: Path, database: str, folder: Path, rng: random.Random) -> None:
        super().__init__(run, database, folder, rng)
        self.steps: list[tuple[Callable[[], None], float]] = [
            (self.add_documents, 10), (self.add_hostile, 8), (self.get_document, 12),
            (self.get_next, 10), (self.get_previous, 4), (self.list_documents, 5),
            (self.set_state, 8), (self.suggest, 6), (self.explain, 2), (self.decide, 14),
            (self.decide_together, 2), (self.decide_wrongly, 4), (self.undo, 6),
            (self.list_decisions, 5), (self.export, 4), (self.check_status, 4),
            (self.learn_annif, 2), (self.send_garbage, 8), (self.send_without_key, 3),
            (self.delete, 2), (self.use_wrong_method, 1), (self.read_others, 3),
            (self.upload, 0.15),
            (self.predict, 1), (self.list_by_uncertainty, 2), (self.search, 3),
            (self.compare_people, 3), (self.use_projects, 3), (self.reconcile, 4),
            (self.use_versions, 0.5), (self.exclude, 2), (self.learn_unknown, 1),
            (self.damage, 0.6 if "://" not in database else 0), (self.restart, 0.5),
        ]  # fmt: skip

    def play(self, n_steps: int, until: float, is_process: bool) -> Finding | None:
        """Take steps, then restart and compare everything; return the first broken promise."""
        place = (self.run, self.database, self.keys_file)
        log = self.folder / "log"
        self._client = ProcessClient(*place, log) if is_process else AsgiClient(*place)
        functions, weights = zip(*self.steps, strict=True)
        try:
            while self.n_steps < n_steps and time.monotonic() < until:
                self.rng.choices(functions, weights)[0]()
            self.restart()
            self.compare_all()
        except BrokenPromiseError as error:
            seed = json.dumps({"requests": self.log, "broken": str(error)}, indent=0)
            return Finding(f"api: {error.key}", str(error), seed.encode(), ".json")
        finally:
            self._client.close()
        if is_process and "Traceback" in (text := log.read_text(errors="replace")):
            return Finding("api: traceback", "the log has a traceback", text.encode(), ".txt")
        return None

    # Steps: documents.

    def add_documents(self) -> None:
        documents = [make_document(self.rng) for _ in range(self.rng.choice((1, 1, 2, 5)))]
        batch = self.rng.choice(BATCHES)
        body = {"documents": documents, "batch": batch}
        answer = json.loads(self.send("POST", "/documents", body, expect=(201,)).body)
        self.require(answer["n_added"] == len(documents), "count", "not all documents were added")
        for number, document in zip(answer["numbers"], documents, strict=True):
            self.model.documents[number] = StoredDocument(document, batch)

    def add_hostile(self) -> None:
        raw = '{"batch": "june", "documents": [' + make_hostile_document(self.rng) + "]}"
        answer = self.send(
            "POST", "/documents", raw.encode("utf-8", "replace"), expect=(201, 400, 413, 422)
        )
        if answer.status == 201:
            document = json.loads(raw)["documents"][0]
            (number,) = json.loads(answer.body)["numbers"]
            self.model.documents[number] = StoredDocument(document, "june")
            self.check_document(number)

    def check_document(self, number: int) -> None:
        """Fetch a document and compare it with what was sent."""
        answer = self.send("GET", f"/documents/{number}", expect=self.allow(number, 200))
        known = self.model.documents.get(number)
        if known is None or known.is_damaged or answer.status != 200:
            return
        found = json.loads(answer.body)
        self.require(found["state"] == known.state, "state", f"document {number}: another state")
        labels = {v["label"]: v["verdict"] for v in found["verdicts"]}
        wanted = self.get_verdicts(number)
        what = f"document {number}: verdicts {labels}, not {wanted}"
        self.require(labels == wanted, "verdicts", what)
        if known.content is None:
            return
        sent = known.content
        fields = {name: sent[name] for name in NAMES if name in sent}
        expected = {
            "fields": fields | sent.get("fields", {}),
            "keywords": sent.get("keywords", []),
            "metadata": sent.get("metadata", {}),
            "id": sent.get("id", ""),
            "batch": known.batch,
        }
        for name, value in expected.items():
            self.require(
                found[name] == value, f"changed {name}", f"document {number}: {name} changed"
            )

    def get_verdicts(self, number: int) -> dict[str, str]:
        """Return the valid verdicts of a document: the last of each label that was not undone."""
        verdicts = {}
        for id_ in sorted(self.model.decisions):
            decision = self.model.decisions[id_]
            if decision["document"] == number and not decision["undone"]:
                verdicts[decision["label"]] = decision["verdict"]
        return verdicts

    def get_document(self) -> None:
        self.check_document(self.pick_document())

    def get_next(self) -> None:
        after, batch = self.rng.choice((0, self.pick_document())), self.rng.choice((None, *BATCHES))
        query = f"?after={after}" + (f"&batch={quote(batch)}" if batch else "")
        found = self.read(f"/documents/next{query}")
        n_open = self.model.count("open", batch)
        if found["document"] is not None:
            number = found["document"]["number"]
            state = self.model.documents[number].state
            self.require(state == "open", "next", f"next is document {number}, which is {state}")
        else:
            self.require(
                n_open == 0, "next", f"next finds nothing, but {n_open} documents are open"
            )
        if not self.has_damage:
            self.require(
                found["n_open"] == n_open, "n_open", f"{found['n_open']} open, not {n_open}"
            )

    def get_previous(self) -> None:
        before = self.pick_document()
        found = self.read(f"/documents/previous?before={before}")["document"]
        earlier = [number for number in self.model.list_shown() if number < before]
        number = found and found["number"]
        if not self.has_damage:
            self.require(number == max(earlier, default=None), "previous", f"not before {before}")

    def list_documents(self) -> None:
        after = 0
        numbers: list[int] = []
        limit = self.rng.choice((7, 50, 500))
        while page := self.read(f"/documents?after={after}&limit={limit}")["documents"]:
            numbers += [one["number"] for one in page]
            after = numbers[-1]
        lost = set(self.model.list_shown()) - set(numbers)
        self.require(not lost, "list", f"documents {sorted(lost)[:5]} are not listed")
        self.require(len(numbers) == len(set(numbers)), "list", "a document is listed twice")

    def set_state(self) -> None:
        number, state = self.pick_document(), self.rng.choice(("open", "done"))
        path = f"/documents/{number}/state"
        known = self.model.documents.get(number)
        is_deleted = known is not None and known.state == DELETED  # it is restored
        expect = (200,) if is_deleted else self.allow(number, 200)
        expect = (*expect, 404, 409) if known and known.is_damaged else expect
        answer = self.send("PUT", path, {"state": state}, expect=expect)
        if answer.status == 200:
            self.model.documents[number].state = state

    def upload(self) -> None:
        name, raw = self.rng.choice(UPLOADS)
        head = f'--xyz\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
        body = head.encode() + raw + b"\r\n--xyz--\r\n"
        kind = "multipart/form-data; boundary=xyz"
        answer = self.send(
            "POST", "/documents/upload", body, content_type=kind, expect=(201, 400, 422)
        )
        if answer.status == 201:
            found = json.loads(answer.body)
            for number in found["numbers"]:
                self.model.documents[number] = StoredDocument(None, found["batch"])
                self.check_document(number)

    def suggest(self) -> None:
        number = self.pick_document()
        body = {"limit": self.rng.randint(1, 10)}
        self.send("POST", f"/documents/{number}/suggest", body, expect=self.allow(number, 200, 429))

    def explain(self) -> None:
        number = self.pick_document()
        body = {"label": self.rng.choice(LABELS)}
        expect = self.allow(number, 200, 409, 429)
        self.send("POST", f"/documents/{number}/explain", body, expect=expect)

    # Steps: decisions.

    def make_decision(self) -> dict[str, Any]:
        decision: dict[str, Any] = {
            "document": self.pick_document(),
            "label": self.rng.choice((*LABELS, UNUSED)),
            "verdict": self.rng.choice(("accept", "reject", "add")),
        }
        if self.rng.random() < 0.4:
            decision["run"] = "small"
        if self.rng.random() < 0.3:
            decision["request_id"] = f"r{self.rng.randrange(10**9)}"
        return decision

    def decide(self) -> None:
        decisions = [self.make_decision() for _ in range(self.rng.choice((1, 1, 3)))]
        allowed = [self.allow(one["document"], 201) for one in decisions]
        is_certain = all(statuses == (201,) for statuses in allowed)
        expect = (201,) if is_certain else (201, 404, 409)
        user = self.rng.choice(USERS)
        before = len(self.model.decisions)
        body = {"decisions": decisions}
        answer = self.send("POST", "/decisions", body, key=self.keys[user], expect=expect)
        if answer.status == 201:
            self.store(json.loads(answer.body)["decisions"], decisions, user)
        elif not self.has_damage:  # all or none
            found = self.read("/status")["n_decisions"]
            self.require(found == before, "all or none", f"{found} decisions, not {before}")

    def store(self, rows: list[dict[str, Any]], sent: list[dict[str, Any]], user: str) -> None:
        """Add acknowledged decisions to the model."""
        for row, wanted in zip(rows, sent, strict=True):
            self.require(row["user"] == user, "signature", f"decision {row['id']} is not by {user}")
            same = all(row[name] == wanted[name] for name in ("document", "label", "verdict"))
            self.require(same, "decision", f"decision {row['id']} is another one than sent")
            self.model.decisions.setdefault(row["id"], row)
            if row["request_id"]:
                self.model.request_ids[row["request_id"]] = row["id"]

    def decide_together(self) -> None:
        """Send one decision many times at once, with one request id: it is written once."""
        decision = self.make_decision() | {"request_id": f"same{self.rng.randrange(10**9)}"}
        if self.allow(decision["document"], 201) != (201,):
            return
        user = self.rng.choice(USERS)
        raw = json.dumps({"decisions": [decision]}).encode()
        request = ApiRequest("POST", "/decisions", raw, self.keys[user])
        rows = [
            json.loads(answer.body)["decisions"][0]
            for answer in self.send_all([request] * 6, (201,))
        ]
        self.require(
            len({row["id"] for row in rows}) == 1, "once", "a request id was written twice"
        )
        self.store(rows[:1], [decision], user)

    def decide_wrongly(self) -> None:
        decision = self.make_decision()
        match self.rng.randrange(4):
            case 0:
                decision["label"] = self.rng.choice(("no such", "\u202e", "x" * 2000))
                expect = self.allow(decision["document"], 404)
            case 1:
                decision["run"] = "no such"
                expect = self.allow(decision["document"], 404)
            case 2:
                decision["verdict"] = "maybe"
                expect = (422,)
            case _:
                if not self.model.request_ids:
                    return
                decision["request_id"] = self.rng.choice(list(self.model.request_ids))
                decision["label"] = "nature"
                expect = (409, 404)
        self.send("POST", "/decisions", {"decisions": [decision]}, expect=expect)

    def undo(self) -> None:
        if not self.model.decisions or self.rng.random() < 0.1:
            self.send("POST", f"/decisions/{2**62}/undo", expect=(404,))
            return
        id_ = self.rng.choice(list(self.model.decisions))
        decision = self.model.decisions[id_]
        expect = (409,) if decision["undone"] else (200,)
        self.send("POST", f"/decisions/{id_}/undo", expect=expect)
        decision["undone"] = True

    def list_decisions(self) -> None:
        """Compare the whole log with the acknowledged decisions."""
        found: dict[int, dict[str, Any]] = {}
        after = 0
        while page := self.read(f"/decisions?after={after}&limit=200")["decisions"]:
            found |= {row["id"]: row for row in page}
            after = page[-1]["id"]
        for id_, decision in self.model.decisions.items():
            if self.model.documents[decision["document"]].state == DELETED:
                continue
            self.require(id_ in found, "lost decision", f"decision {id_} is lost")
            for name in ("document", "label", "verdict", "user", "undone", "time"):
                same = found[id_][name] == decision[name]
                self.require(same, f"decision {name}", f"decision {id_}: {name} changed")

    # Steps: the rest.

    def export(self) -> None:
        form = self.rng.choice(FORMATS)
        batch = self.rng.choice((None, *BATCHES))
        state = self.rng.choice(("all", "open", "done"))
        query = f"?format={form}&state={state}" + (f"&batch={quote(batch)}" if batch else "")
        answer = self.send("GET", f"/export{query}", expect=(200,))
        if form != "jsonl" or self.has_damage:
            return
        rows = [json.loads(line) for line in answer.body.decode().split("\n") if line]
        decided = {one["document"] for one in self.model.decisions.values() if not one["undone"]}
        wanted = [
            number
            for number, one in self.model.documents.items()
            if number in decided
            and batch in (None, one.batch)
            and state in ("all", one.state)
            and one.state != DELETED
        ]
        what = f"{len(rows)} documents are exported, not {len(wanted)}"
        self.require(len(rows) == len(wanted), "export", what)

    def check_status(self) -> None:
        found = self.read("/status")
        self.require("ontodex_" in self.send("GET", "/metrics", expect=(200,)).body.decode(),
                     "metrics", "no metrics")  # fmt: skip
        n_decisions = len(self.model.decisions)
        what = f"{found['n_decisions']} decisions, not {n_decisions}"
        self.require(found["n_decisions"] == n_decisions, "n_decisions", what)
        if not self.has_damage:
            counts = {"n_open": self.model.count("open"), "n_done": self.model.count("done")}
            self.require(
                found["documents"] == counts, "counts", f"{found['documents']}, not {counts}"
            )
            self.require(found["n_quarantined"] == 0, "quarantine", "a sound document is set aside")

    def learn_annif(self) -> None:
        """Store decided documents over the API of Annif, and read back what was written."""
        subjects = [{"uri": label} for label in self.rng.sample(LABELS, self.rng.randint(0, 3))]
        body = [{"text": make_text(self.rng), "metadata": {"a": 1}, "subjects": subjects}]
        self.send("POST", "/v1/projects/small/learn", body, expect=(204,))
        last = max(self.model.documents, default=0)
        for head in self.read(f"/documents?after={last}&limit=500")["documents"]:
            stored = StoredDocument(None, head["batch"], head["state"])
            self.model.documents[head["number"]] = stored
            found = self.read(f"/decisions?document={head['number']}&limit=1000")["decisions"]
            self.model.decisions |= {row["id"]: row for row in found}

    def send_garbage(self) -> None:
        """Send changed bodies, wrong types and wrong methods; none of them may fail."""
        document = make_document(self.rng)
        path, body = self.rng.choice((
            ("/suggest", {"documents": [document], "limit": 3}),
            ("/explain", {"document": document, "label": "fish"}),
            ("/v1/projects/small/suggest-batch", {"documents": [{"text": "trout"}]}),
            ("/v1/detect-language", {"text": "trout", "languages": ["en"]}),
            ("/login", {"key": "x"}),
            (f"/documents/{self.pick_document()}/suggest", {"limit": 3, "include": ["fish"]}),
        ))  # fmt: skip
        raw = json.dumps(body).encode()
        match self.rng.randrange(5):
            case 0 | 1:
                raw = mutate(self.rng, raw)
            case 2:
                raw = nest(self.rng, self.rng.choice((20, 33, 300, 5000, 100_000))).encode()
            case 3:
                raw = self.rng.randbytes(self.rng.randint(1, 200))
            case _:
                pass
        kind = self.rng.choice(CONTENT_TYPES)
        self.send(self.rng.choice(("POST",) * 8 + ("PUT", "GET")), path, raw, content_type=kind)

    def send_without_key(self) -> None:
        method, path = self.rng.choice((
            ("GET", "/documents/next"), ("GET", "/documents"), ("POST", "/documents"),
            ("GET", "/export"), ("POST", "/decisions"), ("GET", "/status"), ("GET", "/quarantine"),
            ("PUT", "/documents/1/state"), ("GET", "/me"), ("GET", "/v1/projects"),
        ))  # fmt: skip
        wrong = self.rng.choice(("", "x", "\u00e9" * 20, "a" * 5000))
        self.send(method, path, None, key=wrong, expect=(401,))

    def use_wrong_method(self) -> None:
        for path in ("/documents", "/decisions/1", "/export", "/runs/small", "/projects/1"):
            self.send("DELETE", path, expect=(404, 405))

    def read_others(self) -> None:
        self.read(self.rng.choice(OTHERS))

    def damage(self) -> None:
        """Change a stored row behind the service's back; only this document may suffer."""
        sound = [n for n, one in self.model.documents.items() if not one.is_damaged]
        if not sound:
            return
        number = self.rng.choice(sound)
        column = self.rng.choice(("metadata", "fields", "keywords", "id", "state", "batch", "done"))
        value = self.rng.choice((
            "{", "[]", "{}", "null", "3", "", '{"text": 1}', nest(self.rng, 256), "[" * 100_000,
            b"\xff\x00", '{"a": NaN}', '{"a": ' + "9" * 5000 + "}", '["\\ud800"]', "weird",
        ))  # fmt: skip
        with closing(sqlite3.connect(self.database, timeout=30)) as connection, connection:
            connection.execute(
                f'UPDATE documents SET "{column}" = ? WHERE number = ?', (value, number)
            )
        self.log.append(["damage", column, repr(value)[:300], str(number)])
        self.model.documents[number].is_damaged = True

    def restart(self) -> None:
        self.client.restart(gently=self.rng.random() < 0.5)
        self.log.append(["restart"])
        self.n_restarts += 1
        self.list_decisions()

    def compare_all(self) -> None:
        """Compare everything that was acknowledged with everything that is there."""
        for number in self.model.documents:
            self.check_document(number)
        self.list_documents()
        self.list_decisions()
        self.check_status()
        for form in FORMATS:
            self.send("GET", f"/export?format={form}", expect=(200,))
