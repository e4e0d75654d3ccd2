"""Steps of the campaign `api` over deletion, projects, people, predictions and OpenRefine."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from attack.api_session import BATCHES, DELETED, Session, StoredDocument
from attack.api_values import make_text, nest
from attack.service import LABELS, UNUSED

FORM = "application/x-www-form-urlencoded"


class RouteSteps(Session):
    """Steps that need no other step."""

    def delete(self) -> None:
        number = self.pick_document()
        answer = self.send("DELETE", f"/documents/{number}", expect=self.allow(number, 204))
        if answer.status == 204:
            self.model.documents[number].state = DELETED

    def predict(self) -> None:
        """Predict documents ahead of time, as many as the answer says."""
        body = {"limit": self.rng.choice((1, 7, 64)), "batch": self.rng.choice((None, *BATCHES))}
        answer = self.send("POST", "/documents/predict", body, expect=(200, 429, 503))
        if answer.status == 200:
            found = json.loads(answer.body)
            is_possible = 0 <= found["n_predicted"] <= body["limit"] and found["n_left"] >= 0
            self.require(is_possible, "predict", f"predicted {found}")

    def list_by_uncertainty(self) -> None:
        """List all documents in the order of uncertainty: each is there once."""
        numbers: list[int] = []
        path = f"/documents?order=uncertainty&limit={self.rng.choice((3, 50))}"
        while page := self.read(f"{path}&after={numbers[-1] if numbers else 0}")["documents"]:
            numbers += [one["number"] for one in page]
        lost = set(self.model.list_shown()) - set(numbers)
        self.require(not lost, "uncertainty", f"documents {sorted(lost)[:5]} are not listed")
        self.require(len(numbers) == len(set(numbers)), "uncertainty", "one is listed twice")
        self.read("/documents/next?order=uncertainty")

    def search(self) -> None:
        """Search documents and concepts with texts that patterns give a meaning to."""
        text = self.rng.choice(
            ("trout", "%", "_", "\\", '"', "\u202e", "é", "' OR 1=1 --", "a" * 200)
        )
        found = self.read(f"/documents?q={quote(text)}&limit=500")
        is_counted = not text.strip() or found["n_found"] >= len(found["documents"])
        self.require(is_counted, "search", f"{found['n_found']} found, but more are listed")
        self.read(f"/ontology/search?q={quote(text)}")

    def compare_people(self) -> None:
        number = self.pick_document()
        expect = self.allow(number, 200)
        answer = self.send("GET", f"/documents/{number}/people", expect=expect)
        pairs = self.read("/agreement")["pairs"]
        if answer.status == 200:
            pairs += json.loads(answer.body)["pairs"]
        wrong = [pair for pair in pairs if not 0 <= pair["agreement"] <= 1]
        self.require(not wrong, "agreement", f"agreements outside of [0, 1]: {wrong[:3]}")

    def use_projects(self) -> None:
        """Rename the project, give it its own vocabulary, and name one that there is not."""
        (project,) = self.read("/projects")["projects"]
        if not self.has_damage:
            counts = (project["n_open"], project["n_done"])
            wanted = (self.model.count("open"), self.model.count("done"))
            self.require(counts == wanted, "project", f"the project has {counts}, not {wanted}")
        body = self.rng.choice(({"name": make_text(self.rng)[:200] or "x"}, {"run": "small"}, {}))
        self.send("PUT", f"/projects/{project['id']}", body, expect=(200, 422))
        self.send("PUT", f"/projects/{2**40}", body, expect=(404, 409, 422))
        unknown = {"documents": [{"text": "trout"}], "project": 2**40}
        self.send("POST", "/documents", unknown, expect=(404,))

    def reconcile(self) -> None:
        """Send forms of OpenRefine, good and hostile ones."""
        queries: Any = {
            f"q{i}": {"query": make_text(self.rng)[:100], "limit": self.rng.randint(-1, 101)}
            for i in range(self.rng.choice((0, 1, 5)))
        }
        extend = {"ids": ["fish", "no such"], "properties": [{"id": "name"}, {"id": "broader"}]}
        form = self.rng.choice((
            {"queries": json.dumps(queries)}, {"extend": json.dumps(extend)}, {"queries": "{"}, {},
            {"queries": nest(self.rng, self.rng.choice((20, 300, 100_000)))},
        ))  # fmt: skip
        self.send("POST", "/reconcile/small", urlencode(form).encode(), content_type=FORM)
        prefix = quote(make_text(self.rng)[:50])
        kind = self.rng.choice(("entity", "type", "property"))
        self.send("GET", f"/reconcile/small/suggest/{kind}?prefix={prefix}", expect=(200, 422))
        label = quote(self.rng.choice((*LABELS, "no such")), safe="")
        self.send("GET", f"/reconcile/small/preview?id={label}", expect=(200, 404))
        self.send("GET", "/reconcile/small/properties", expect=(200,))

    def use_versions(self) -> None:
        """Look for another version of the run; there is none, and none to go back to."""
        self.read("/runs/small/versions")
        answer = self.send("POST", "/runs/small/reload", expect=(200,))
        is_changed = json.loads(answer.body)["is_changed"]
        self.require(not is_changed, "reload", "the run was taken for changed")
        version = self.rng.choice(("previous", "..", "0" * 200, "%2e%2e%2fsmall"))
        expect = (404, 405, 409)
        self.send("POST", f"/runs/small/versions/{version}/restore", expect=expect)

    def exclude(self) -> None:
        """Ask for suggestions without some concepts: these are not among the answers."""
        labels = self.rng.sample(LABELS, 2)
        body = {
            "documents": [{"text": make_text(self.rng) + " trout oak"}],
            "exclude": labels[:1],
            "exclude_subtrees": self.rng.choice(([], ["nature"], ["no such"])),
            "exclude_schemes": self.rng.choice(([], ["no such"])),
        }
        answer = self.send("POST", "/suggest", body, expect=(200, 404, 422, 429))
        if answer.status == 200:
            found = json.loads(answer.body)["results"][0]["suggestions"]
            is_there = any(one["label"] == labels[0] for one in found)
            self.require(not is_there, "exclude", f"{labels[0]} was excluded, and is suggested")

    def learn_unknown(self) -> None:
        """Store a document with subjects that are no concepts; they are kept beside the others."""
        unknown = ["no> .\n<such", "\u202e", "x" * 2000]
        subjects = [{"uri": one} for one in (*unknown, UNUSED)]
        body = [{"text": make_text(self.rng), "subjects": subjects}]
        self.send("POST", "/v1/projects/small/learn", body, expect=(204,))
        last = max(self.model.documents, default=0)
        for head in self.read(f"/documents?after={last}&limit=500")["documents"]:
            number = head["number"]
            self.model.documents[number] = StoredDocument(None, head["batch"], head["state"])
            found = self.read(f"/documents/{number}")
            self.model.decisions |= {
                row["id"]: row for row in self.read(f"/decisions?document={number}")["decisions"]
            }
            labels = [one["label"] for one in found["verdicts"]]
            self.require(labels == [UNUSED], "learn", f"the labels are {labels}")
            kept = found["metadata"]["unmatched_labels"]
            self.require(kept == unknown, "learn", f"unknown subjects became {kept}")
