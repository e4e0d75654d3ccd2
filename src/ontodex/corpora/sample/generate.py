"""Generate documents about city life from a seed.

    topic -> concepts -> sentences about each -> title, text, keywords
                 `----> indexer errors (some labels missing, some replaced by a parent) -> labels

All sentences and phrases are in `sentences.toml`; this module draws from them.
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

N_CONCEPTS = {1: 9, 2: 16, 3: 21, 4: 22, 5: 16, 6: 10, 7: 6}  # number of concepts of a text: weight
N_ASIDES = {0: 20, 1: 50, 2: 30}  # number of concepts mentioned without a label: weight
FORGOTTEN, PARENT_INSTEAD = 0.05, 0.035  # probabilities of indexer errors, per concept
STRANGER = 0.05  # probability of a concept from outside the topic
NAMED = 0.45  # probability that a concept appears by name, else by a paraphrase
ANNOUNCED, CONNECTED = 0.4, 0.15  # probabilities of a transition sentence, and of a connective
WORDS = 60, 140  # minimum and maximum in title and text
FIXED = "place", "street", "river", "season", "agent", "who"  # slots with one value per document
NUMBERS = {"n": (4, 19), "N": (120, 940), "pct": (12, 68), "later": (2035, 2050)}


@dataclass(frozen=True)
class Material:
    """The ontology and the sentences, with indexes for the generator."""

    ontology: dict[str, dict[str, Any]]
    text: dict[str, Any]
    circles: dict[str, list[list[str]]]  # concept -> groups of concepts that occur together
    kin: dict[str, set[str]]  # concept -> itself, its ancestors and descendants

    def weights(self, concepts: list[str]) -> list[int]:
        return [self.text["concepts"][c]["weight"] for c in concepts]

    def exclude_kin(self, others: list[str], pool: list[str]) -> list[str]:
        """Return the concepts of `pool` without the others, their ancestors and descendants."""
        taken = set().union(*(self.kin[c] for c in others))
        return [c for c in pool if c not in taken]


@cache
def load_material() -> Material:
    """Load ontology and sentences, once."""
    here = files("ontodex.corpora.sample")
    ontology = json.loads((here / "ontology.json").read_text(encoding="utf-8"))
    text = tomllib.loads((here / "sentences.toml").read_text(encoding="utf-8"))

    def above(concept: str) -> set[str]:
        return {concept}.union(*map(above, ontology[concept]["parents"]))

    ancestors = {c: above(c) for c in ontology}
    by_name = {ontology[c]["label"]: c for c in ontology}
    circles = [[by_name[name] for name in topic] for topic in text["topics"]]
    # Siblings are a circle too; a concept with two parents is in two of them.
    circles += [[c for c in ontology if p in ontology[c]["parents"]] for p in ontology]
    return Material(
        ontology,
        text,
        circles={c: [circle for circle in circles if c in circle] or [[c]] for c in ontology},
        kin={c: ancestors[c] | {x for x in ontology if c in ancestors[x]} for c in ontology},
    )


def choose_concepts(rng: Random, m: Material) -> list[str]:
    """Choose the concepts of a text, the main one first; none is an ancestor of another."""
    everyone = list(m.ontology)
    (n,) = rng.choices(list(N_CONCEPTS), list(N_CONCEPTS.values()))
    chosen = rng.choices(everyone, m.weights(everyone))
    circle = rng.choice(m.circles[chosen[0]])
    while len(chosen) < n:
        pool = m.exclude_kin(chosen, everyone if rng.random() < STRANGER else circle)
        if any(m.weights(pool)):
            chosen += rng.choices(pool, m.weights(pool))
        else:  # the circle is used up
            circle = rng.choice(m.circles[rng.choice(chosen)])
    return chosen


def choose_labels(rng: Random, concepts: list[str], m: Material) -> list[str]:
    """Choose labels as an indexer with errors: some missing, some replaced by a parent."""
    labels = set()
    for concept in concepts:
        luck, parents = rng.random(), m.ontology[concept]["parents"]
        if luck < PARENT_INSTEAD and parents:
            labels.add(rng.choice(parents))
        elif luck < 1 - FORGOTTEN:
            labels.add(concept)
    return sorted(labels or {concepts[0]})


class Writer:
    """Writes one document: place, time and people stay the same, numbers change."""

    def __init__(self, rng: Random, m: Material) -> None:
        self.rng, self.m, self.year = rng, m, rng.randint(2012, 2025)
        self.genre = rng.choice(list(m.text["genres"]))
        fixed = {name: [rng.choice(m.text["slots"][name])] for name in FIXED}
        self.slots = m.text["slots"] | fixed | {"now": [str(self.year)]}
        self.numbers = NUMBERS | {"year": (self.year - 24, self.year - 2)}

    def fill(self, template: str, **topics: str) -> str:
        """Fill the choices and slots of a template; {Slot} is {slot} capitalised."""

        def word(hit: re.Match[str]) -> str:
            name, lower = hit[1], hit[1].lower()
            if name in self.numbers:
                return str(self.rng.randint(*self.numbers[name]))
            found = str(topics.get(lower) or self.rng.choice(self.slots[lower]))
            return found if name == lower else found[0].upper() + found[1:]

        chosen = re.sub(
            r"\[([^\[\]]*+)\]", lambda hit: self.rng.choice(hit[1].split("|")), template
        )
        return re.sub(r"\{(\w+)\}", word, chosen)

    def topic(self, concept: str, *, named: float = NAMED, avoid: str = "") -> str:
        """Return one of the names or phrases of a concept, but not the one to avoid."""
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
        """Return title and text; `needed` are the opening and a sentence per concept."""
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
        strangers = self.m.exclude_kin(concepts, list(self.m.ontology))
        for aside in rng.sample(text["asides"], n_asides):
            parts.append(fill(aside, topic=self.topic(rng.choice(strangers))))
        findings = [fill(finding) for finding in rng.sample(frame["findings"], 3)]
        parts += [findings.pop(), fill(rng.choice(frame["closings"]))]
        while count_words(title, *parts) < WORDS[0]:
            parts.insert(-1, findings.pop())
        while count_words(title, *parts) > WORDS[1]:
            parts.remove([part for part in parts if part not in needed][-1])
        return title, " ".join(parts)

    def keywords(self, concepts: list[str]) -> list[str]:
        """Return two to five phrases; about half are names of concepts."""
        n = self.rng.randint(2, max(2, min(5, len(concepts) + 1)))
        words = [self.topic(concept, named=0.65) for concept in self.rng.sample(concepts, n - 1)]
        words.append(self.rng.choice(self.m.text["general_keywords"]))
        self.rng.shuffle(words)
        return [re.sub(r"^(the|an?) ", "", phrase) for phrase in words]


def count_words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)


def generate_documents(n: int = 2000, seed: int = 7) -> Iterator[dict[str, object]]:
    """Generate `n` records of the JSONL format; a smaller `n` gives a prefix of a larger one."""
    rng, m = Random(seed), load_material()  # noqa: S311  (a corpus, not a secret)
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
