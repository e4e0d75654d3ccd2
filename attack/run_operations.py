"""Operations on a run folder beyond ranking: every command and route that reads it.

A damaged folder that was accepted must also survive these: an operation ends, or is refused with an
OntodexError, and every run folder that it leaves behind loads.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from attack.api_clients import ApiRequest, AsgiClient
from attack.run_seeds import make_corpus, make_ontology
from attack.service import LABELS, UNUSED
from ontodex.errors import OntodexError
from ontodex.ontology.graph import Concept
from ontodex.runs.evaluate import evaluate
from ontodex.runs.export import export
from ontodex.runs.hub import pull, push
from ontodex.runs.index.job import index_documents
from ontodex.runs.migrate import migrate
from ontodex.runs.run import load
from ontodex.runs.update import update
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import NewDecision
from ontodex.serve.http.api_keys import add_key
from ontodex.serve.learn import learn
from ontodex.types import Corpus, Doc

TEXT = "trout swim in the cold stream by the road"
NEW = Corpus.of(
    Doc(f"new-{i}", {"title": f"{TEXT} {i}"}, (), (label,))
    for i, label in enumerate((*LABELS, UNUSED, "no concept"))
)


@dataclass(frozen=True)
class Workplace:
    """A copy of the run that may be changed, and a folder for what is written."""

    run: Path
    out: Path


def run_evaluate(place: Workplace) -> None:
    evaluate(place.run, make_corpus(1), report=True, device="cpu")


def run_export(place: Workplace) -> None:
    export(place.run, place.out / "exported")


def run_update(place: Workplace) -> None:
    update(place.run, NEW)


def run_migrate(place: Workplace) -> None:
    newer = make_ontology(Concept("eel", {"en": "Eel"}, parents=["animals"]))
    migrate(place.run, newer, place.out / "migrated")


def run_learn(place: Workplace) -> None:
    database = Database.open(str(place.out / "decisions.sqlite"))
    try:
        numbers = database.add_documents(list(make_corpus(2)), batch="b", user="ada")
        decided = [
            NewDecision(number, label, verdict)
            for number, own in zip(numbers, make_corpus(2).labels(), strict=True)
            for label in LABELS
            for verdict in ["accept" if label in own else "reject"]
        ]
        database.write_decisions(decided, user="ada")
        for number in numbers:
            database.set_state(number, "done", user="ada")
        learn(place.run, database)
    finally:
        database.close()


def run_index(place: Workplace) -> None:
    source = place.out / "new.jsonl"
    source.write_text(json.dumps({"id": "1", "text": TEXT}) + "\n")
    index_documents(place.run, source, place.out / "out.csv", workers=1)


def run_push(place: Workplace) -> None:
    push(place.run, str(place.out / "pushed"))
    load(pull(str(place.out / "pushed"), place.out / "pulled"))


def run_serve(place: Workplace) -> None:
    """Ask the service for everything that it reads from a run."""
    label = quote(LABELS[2], safe="")
    documents = {"documents": [{"text": TEXT}, {"text": ""}]}
    asked: list[tuple[str, str, object]] = [
        ("POST", "/suggest", documents),
        ("POST", "/suggest", {**documents, "exclude_subtrees": ["nature"], "language": "de"}),
        ("POST", "/explain", {"document": {"text": TEXT}, "label": LABELS[0]}),
        *(
            ("GET", path, None)
            for path in (
                "/runs", "/runs/small", "/runs/small/versions", "/ontology", "/ontology/children",
                f"/ontology/concept?label={label}", "/ontology/paths?label=fish",
                "/ontology/search?q=fsh", "/v1/projects", "/v1/projects/small", "/v1/vocabs",
                "/reconcile/small", "/metrics", "/ontology/children?label=nature", "/readyz",
                f"/reconcile/small/preview?id={label}", "/reconcile/small/suggest/entity?prefix=f",
            )
        ),
        ("POST", "/documents", documents),
        ("POST", "/documents/predict", {}),
        ("POST", "/decisions",
         {"decisions": [{"document": 1, "label": LABELS[0], "verdict": "accept"}]}),
        *(("GET", f"/export?format={one}", None) for one in ("jsonl", "csv", "skos", "marc")),
        ("POST", "/runs/small/reload", None),
    ]  # fmt: skip
    keys = place.out / "keys.tsv"
    key = add_key(keys, "ada")
    client = AsgiClient(place.run, str(place.out / "served.sqlite"), keys)
    try:
        for method, path, body in asked:
            content = b"" if body is None else json.dumps(body).encode()
            (answer,) = client.send([ApiRequest(method, path, content, key)])
            assert answer.status < 500 or answer.status in (501, 503), (
                f"{method} {path.partition('?')[0]} answers {answer.status}: {answer.body[:300]!r}"
            )
    finally:
        client.close()


OPERATIONS: tuple[Callable[[Workplace], None], ...] = (
    run_evaluate, run_export, run_update, run_migrate, run_learn, run_index, run_push, run_serve,
)  # fmt: skip


def try_operation(folder: Path, operation: Callable[[Workplace], None]) -> str:
    """Do it with a copy of a run that loads; return "ended" or "refused".

    An exception that is not an OntodexError is raised, and so is that of a run that was written and
    does not load.
    """
    place = Workplace(folder.with_name("copy") / "run", folder.with_name("written"))
    for path in (place.run.parent, place.out):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
    shutil.copytree(folder, place.run)
    outcome = "ended"
    try:
        operation(place)
    except OntodexError as error:
        outcome = "refused" if len(str(error)) < 2000 else "refused at great length"
    written = [place.run, *(path for path in place.out.iterdir() if path.name == "migrated")]
    for run in written:
        load(run).suggest(TEXT)
    return outcome
