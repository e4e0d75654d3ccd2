"""Documents about city life, written from a seed.

    topic -> concepts -> sentences that speak of each -> title, text, keywords
                 `----> an indexer who may forget or generalise -> labels

Everything that reads like language is in `sentences.toml`; this file only draws from it.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

N_CONCEPTS = {1: 9, 2: 16, 3: 21, 4: 22, 5: 16, 6: 10, 7: 6}  # that a text speaks of: weight
N_ASIDES = {0: 20, 1: 50, 2: 30}  # concepts mentioned in passing, without a label: weight
FORGOTTEN, PARENT_INSTEAD = 0.05, 0.035  # the indexer's errors, per concept
STRANGER = 0.05  # a companion from anywhere in the ontology instead of from the topic
NAMED = 0.45  # a topic is called by a name of its concept, else by a phrase that goes round it
ANNOUNCED, CONNECTED = 0.4, 0.15  # how a text comes to its next concept, else without a word
WORDS = 60, 140  # of title and text together
FIXED = "place", "street", "river", "season", "agent", "who"  # one of each in a document
NUMBERS = {"n": (4, 19), "N": (120, 940), "pct": (12, 68), "later": (2035, 2050)}


@dataclass(frozen=True)
class Material:
    """The ontology and the sentences, with what the generator looks up in them."""

    ontology: dict[str, dict[str, Any]]
    text: dict[str, Any]
    circles: dict[str, list[list[str]]]  # concept -> the circles it moves in
    kin: dict[str, set[str]]  # concept -> itself, its ancestors and its descendants

    def weights(self, concepts: list[str]) -> list[int]:
        return [self.text["concepts"][c]["weight"] for c in concepts]

    def apart_from(self, others: list[str], pool: list[str]) -> list[str]:
        """Those of `pool` that are neither among the others nor above or below one of them."""
        taken = set().union(*(self.kin[c] for c in others))
        return [c for c in pool if c not in taken]


@cache
def material() -> Material:
    """What the package holds, read once."""
    here = files("ontodex.sample")
    ontology = json.loads((here / "ontology.json").read_text(encoding="utf-8"))
    text = tomllib.loads((here / "sentences.toml").read_text(encoding="utf-8"))

    def above(concept: str) -> set[str]:
        return {concept}.union(*map(above, ontology[concept]["parents"]))

    ancestors = {c: above(c) for c in ontology}
    by_name = {ontology[c]["label"]: c for c in ontology}
    circles = [[by_name[name] for name in topic] for topic in text["topics"]]
    # Siblings are a circle too; a concept with two parents has two of them.
    circles += [[c for c in ontology if p in ontology[c]["parents"]] for p in ontology]
    return Material(
        ontology,
        text,
        circles={c: [circle for circle in circles if c in circle] or [[c]] for c in ontology},
        kin={c: ancestors[c] | {x for x in ontology if c in ancestors[x]} for c in ontology},
    )


def choose_concepts(rng: Random, m: Material) -> list[str]:
    """The concepts a text will speak of, the main one first; none is an ancestor of another."""
    everyone = list(m.ontology)
    (n,) = rng.choices(list(N_CONCEPTS), list(N_CONCEPTS.values()))
    chosen = rng.choices(everyone, m.weights(everyone))
    circle = rng.choice(m.circles[chosen[0]])
    while len(chosen) < n:
        pool = m.apart_from(chosen, everyone if rng.random() < STRANGER else circle)
        if any(m.weights(pool)):
            chosen += rng.choices(pool, m.weights(pool))
        else:  # the circle is used up
            circle = rng.choice(m.circles[rng.choice(chosen)])
    return chosen


def choose_labels(rng: Random, concepts: list[str], m: Material) -> list[str]:
    """What a busy indexer makes of the concepts: some forgotten, some replaced by a parent."""
    labels = set()
    for concept in concepts:
        luck, parents = rng.random(), m.ontology[concept]["parents"]
        if luck < PARENT_INSTEAD and parents:
            labels.add(rng.choice(parents))
        elif luck < 1 - FORGOTTEN:
            labels.add(concept)
    return sorted(labels or {concepts[0]})


class Writer:
    """The words of one document: its place, time and people stay, numbers change."""

    def __init__(self, rng: Random, m: Material) -> None:
        self.rng, self.m, self.year = rng, m, rng.randint(2012, 2025)
        self.genre = rng.choice(list(m.text["genres"]))
        fixed = {name: [rng.choice(m.text["slots"][name])] for name in FIXED}
        self.slots = m.text["slots"] | fixed | {"now": [str(self.year)]}
        self.numbers = NUMBERS | {"year": (self.year - 24, self.year - 2)}

    def fill(self, template: str, **topics: str) -> str:
        """The template with its choices made and its slots filled; {Slot} is {slot} capitalised."""

        def word(hit: re.Match[str]) -> str:
            name, lower = hit[1], hit[1].lower()
            if name in self.numbers:
                return str(self.rng.randint(*self.numbers[name]))
            found = str(topics.get(lower) or self.rng.choice(self.slots[lower]))
            return found if name == lower else found[0].upper() + found[1:]

        chosen = re.sub(r"\[(.*?)\]", lambda hit: self.rng.choice(hit[1].split("|")), template)
        return re.sub(r"\{(\w+)\}", word, chosen)

    def topic(self, concept: str, *, named: float = NAMED, avoid: str = "") -> str:
        """A way to call the concept: one of its names, or a phrase; not the one to avoid."""
        label, others = (self.m.ontology[concept][key] for key in ("label", "alt_labels"))
        proper = label.split()[0] in self.m.text["proper"]
        names = [label if proper else label[0].lower() + label[1:], *others]
        phrases = self.m.text["concepts"][concept]["phrases"]
        options = names if self.rng.random() < named else phrases
        topic = str(self.rng.choice([option for option in options if option != avoid] or phrases))
        return f"the {topic}" if topic in self.m.text["with_the"] else topic

    def connect(self, sentence: str) -> str:
        if sentence.split()[0] not in self.m.text["starters"]:
            return sentence
        connective: str = self.rng.choice(self.m.text["connectives"])
        return connective + sentence[0].lower() + sentence[1:]

    def write(self, concepts: list[str]) -> tuple[str, str]:
        """Title and text. The text needs its opening and a sentence per concept, in `needed`."""
        rng, text, fill = self.rng, self.m.text, self.fill
        frame, (main, *others) = text["genres"][self.genre], concepts
        topic = self.topic(main)
        second = self.topic(others[0]) if others else ""
        titles = [title for title in frame["titles"] if second or "{second}" not in title]
        title = fill(rng.choice(titles), topic=topic, second=second)
        parts = [fill(rng.choice(frame["openings"]), topic=self.topic(main, avoid=topic))]
        needed = {parts[0]}
        links = rng.sample(text["transitions"], len(text["transitions"]))
        n_more = max(0, rng.randint(4, 6) - len(concepts))
        more = rng.choices(concepts, range(len(concepts), 0, -1), k=n_more)
        for concept, n in Counter([*concepts, *more]).items():
            pool = text["concepts"][concept]["sentences"]
            sentences = [fill(template) for template in rng.sample(pool, min(n, len(pool)))]
            luck = rng.random() if concept != main else 1.0
            if luck < ANNOUNCED:
                parts.append(fill(links.pop(), topic=self.topic(concept)))
            elif luck < ANNOUNCED + CONNECTED:
                sentences[0] = self.connect(sentences[0])
            parts += sentences
            needed.add(sentences[0])
        (n_asides,) = rng.choices(list(N_ASIDES), list(N_ASIDES.values()))
        strangers = self.m.apart_from(concepts, list(self.m.ontology))
        for aside in rng.sample(text["asides"], n_asides):
            parts.append(fill(aside, topic=self.topic(rng.choice(strangers))))
        findings = [fill(finding) for finding in rng.sample(frame["findings"], 3)]
        parts += [findings.pop(), fill(rng.choice(frame["closings"]))]
        while n_words(title, *parts) < WORDS[0]:
            parts.insert(-1, findings.pop())
        while n_words(title, *parts) > WORDS[1]:
            parts.remove([part for part in parts if part not in needed][-1])
        return title, " ".join(parts)

    def keywords(self, concepts: list[str]) -> list[str]:
        """Two to five phrases of the author's choice; about half are names of concepts."""
        n = self.rng.randint(2, max(2, min(5, len(concepts) + 1)))
        words = [self.topic(concept, named=0.65) for concept in self.rng.sample(concepts, n - 1)]
        words.append(self.rng.choice(self.m.text["general_keywords"]))
        self.rng.shuffle(words)
        return [re.sub(r"^(the|an?) ", "", phrase) for phrase in words]


def n_words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)


def documents(n: int = 2000, seed: int = 7) -> Iterator[dict[str, object]]:
    """`n` records of our JSONL format. The seed decides all; fewer are a prefix of more."""
    rng, m = Random(seed), material()
    for i in range(n):
        writer, concepts = Writer(rng, m), choose_concepts(rng, m)
        title, abstract = writer.write(concepts)
        yield {
            "id": f"sample-{i:05d}",
            "title": title,
            "abstract": abstract,
            "keywords": writer.keywords(concepts),
            "labels": choose_labels(rng, concepts, m),
            "metadata": {"year": writer.year, "genre": writer.genre},
        }
