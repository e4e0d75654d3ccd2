"""The bundled sample: is it well formed, does it read well, does it hold what a corpus holds?"""

import json
import re
from collections import Counter
from hashlib import sha256
from itertools import combinations, islice

import pytest

from ontodex.corpora.sample import generate_documents, get_ontology_path, split_records
from ontodex.corpora.sample.generate import load_material

ONTOLOGY = json.loads(get_ontology_path().read_text(encoding="utf-8"))
DOCS = list(generate_documents())
COUNTS = Counter(label for doc in DOCS for label in doc["labels"])


def levels(concept):
    """Every level at which a path from a root meets the concept."""
    parents = ONTOLOGY[concept]["parents"]
    return {1} if not parents else {level + 1 for parent in parents for level in levels(parent)}


def names(concept):
    return [ONTOLOGY[concept]["label"], *ONTOLOGY[concept]["alt_labels"]]


def text(doc):
    return f"{doc['title']} {doc['abstract']}"


def sentences(doc):
    return re.split(r"(?<=[.?]) (?=[A-Z\d“])", doc["abstract"])


# The ontology


def test_no_concept_is_its_own_ancestor():
    for concept in ONTOLOGY:
        above, frontier = set(), {concept}
        while frontier:
            frontier = {p for c in frontier for p in ONTOLOGY[c]["parents"]} - above
            above |= frontier
        assert concept not in above


def test_every_parent_is_a_concept_and_every_concept_is_described():
    for concept in ONTOLOGY.values():
        assert set(concept["parents"]) <= set(ONTOLOGY)
        assert len(set(concept["parents"])) == len(concept["parents"])
        assert concept["alt_labels"]
        assert concept["definition"].endswith(".")


def test_it_has_four_levels_and_a_concept_stands_on_one_of_them():
    assert all(len(levels(concept)) == 1 for concept in ONTOLOGY)
    sizes = Counter(min(levels(concept)) for concept in ONTOLOGY)
    assert sorted(sizes) == [1, 2, 3, 4]
    assert 6 <= sizes[1] <= 10
    assert sizes.total() >= 180


def test_a_dozen_concepts_or_more_have_two_parents():
    assert sum(len(concept["parents"]) == 2 for concept in ONTOLOGY.values()) >= 12


def test_preferred_names_are_unique_and_hardly_any_name_is_ambiguous():
    labels = [concept["label"].lower() for concept in ONTOLOGY.values()]
    assert len(set(labels)) == len(labels)
    uses = Counter(name.lower() for concept in ONTOLOGY for name in names(concept))
    assert sum(n > 1 for n in uses.values()) <= 3


def test_every_concept_has_three_sentences_and_a_frequent_one_has_five():
    phrases = load_material().text["concepts"]
    assert list(phrases) == list(ONTOLOGY)
    assert all(len(set(entry["sentences"])) >= 3 for entry in phrases.values())
    frequent = [concept for concept, _ in COUNTS.most_common(40)]
    assert all(len(phrases[concept]["sentences"]) >= 5 for concept in frequent)


# The generator


def test_the_same_seed_gives_the_same_bytes():
    assert json.dumps(list(generate_documents())) == json.dumps(DOCS)


def test_another_seed_gives_other_texts():
    assert not {text(doc) for doc in generate_documents(200, seed=8)} & {text(doc) for doc in DOCS}


def test_fewer_documents_are_the_first_of_more():
    assert list(generate_documents(50)) == list(islice(generate_documents(80), 50)) == DOCS[:50]


def test_ids_are_unique_and_texts_are_too():
    assert len({doc["id"] for doc in DOCS}) == len({text(doc) for doc in DOCS}) == len(DOCS) == 2000


@pytest.mark.parametrize("flaw", ["{", "}", "[", "]", "|", "  ", " .", " ,", "..", ".,", "?."])
def test_no_template_shows_through(flaw):
    assert not [doc["id"] for doc in DOCS if flaw in text(doc) + " / ".join(doc["keywords"])]


def test_a_and_an_stand_before_the_right_sound():
    a_before_vowel = re.compile(r"\b[Aa] (?!one\b|euro\b|uni|use)[aeiou8]\w*")
    an_before_consonant = re.compile(r"\b[Aa]n (?!hour|LED)[^aeiouAEIO8\W]\w*")
    for doc in DOCS:
        assert not a_before_vowel.findall(text(doc))
        assert not an_before_consonant.findall(text(doc))


def test_sentences_begin_with_a_capital_and_are_not_repeated_in_a_document():
    for doc in DOCS:
        assert len(set(sentences(doc))) == len(sentences(doc)) >= 4
        assert all(re.match(r"[A-Z\d“]", part) for part in [doc["title"], *sentences(doc)])


def test_title_and_text_have_60_to_140_words():
    for doc in [*DOCS, *generate_documents(1000, seed=1)]:
        assert 60 <= len(text(doc).split()) <= 140


def test_records_have_the_fields_of_our_format():
    for doc in DOCS:
        assert list(doc) == ["id", "title", "abstract", "keywords", "labels", "metadata"]
        assert set(doc["metadata"]) == {"year", "genre"}
    assert len({doc["metadata"]["genre"] for doc in DOCS}) == 6


# What a corpus holds


def test_every_label_is_a_concept_and_given_once():
    assert set(COUNTS) <= set(ONTOLOGY)
    assert all(len(set(doc["labels"])) == len(doc["labels"]) for doc in DOCS)


def test_a_document_has_one_to_seven_labels_and_three_or_four_on_average():
    sizes = [len(doc["labels"]) for doc in DOCS]
    assert set(sizes) == set(range(1, 8))
    assert sum(sizes) / len(sizes) == pytest.approx(3.5, abs=0.2)


def test_labels_are_rarely_as_general_as_a_root():
    roots = sum(n for concept, n in COUNTS.items() if not ONTOLOGY[concept]["parents"])
    assert 0 < roots < 0.03 * COUNTS.total()


def test_some_concepts_are_frequent_many_are_rare_and_a_few_are_never_met():
    assert COUNTS.most_common(1)[0][1] > 100
    assert sum(0 < COUNTS[concept] < 10 for concept in ONTOLOGY) >= 20
    assert 3 <= sum(COUNTS[concept] == 0 for concept in ONTOLOGY) <= 6


def test_labels_keep_company():
    """Pairs that would meet 2 or 3 times if labels were dealt at random meet 10 times and more."""
    pairs = Counter(pair for doc in DOCS for pair in combinations(sorted(doc["labels"]), 2))

    def by_chance(a, b):
        return 2 * pairs.total() * COUNTS[a] * COUNTS[b] / COUNTS.total() ** 2

    friends = [pair for pair, n in pairs.items() if n >= 10 and n > 4 * by_chance(*pair)]
    assert len(friends) > 50


def test_a_concept_with_two_parents_meets_the_children_of_both():
    partly = Counter()
    for concept, entry in ONTOLOGY.items():
        if len(entry["parents"]) == 2 and COUNTS[concept] >= 20:
            met = {c for doc in DOCS if concept in doc["labels"] for c in doc["labels"]} - {concept}
            sides = [any(p in ONTOLOGY[c]["parents"] for c in met) for p in entry["parents"]]
            partly[all(sides)] += 1
    assert partly[True] > partly[False]


def test_texts_often_name_their_labels_but_often_go_round_the_name():
    stated = [
        any(name.lower() in text(doc).lower() for name in names(label))
        for doc in DOCS
        for label in doc["labels"]
    ]
    assert 0.3 < sum(stated) / len(stated) < 0.75


def test_texts_name_concepts_that_are_not_their_labels():
    def distracts(doc):
        near = {p for c in doc["labels"] for p in ONTOLOGY[c]["parents"]} | set(doc["labels"])
        return any(f" {ONTOLOGY[c]['label'].lower()}" in text(doc) for c in ONTOLOGY.keys() - near)

    assert sum(map(distracts, DOCS)) > 0.1 * len(DOCS)


def test_keywords_are_phrases_and_about_half_of_them_are_names():
    known = {name.lower() for concept in ONTOLOGY for name in names(concept)}
    keywords = [keyword for doc in DOCS for keyword in doc["keywords"]]
    assert all(2 <= len(set(doc["keywords"])) == len(doc["keywords"]) <= 5 for doc in DOCS)
    assert not set(keywords) & set(ONTOLOGY)
    assert 0.35 < sum(keyword.lower() in known for keyword in keywords) / len(keywords) < 0.65


# The split


def test_the_split_follows_the_hash_of_the_id():
    train, dev, test = split_records(DOCS)
    assert sorted(doc["id"] for doc in train + dev + test) == sorted(doc["id"] for doc in DOCS)
    for part, digits in [(test, {0}), (dev, {1}), (train, set(range(2, 10)))]:
        found = {int(sha256(doc["id"].encode()).hexdigest(), 16) % 10 for doc in part}
        assert found == digits


def test_a_document_stays_on_its_side_when_the_corpus_grows():
    few, more = split_records(generate_documents(300)), split_records(generate_documents(400))
    for smaller, larger in zip(few, more, strict=True):
        assert smaller == larger[: len(smaller)]
