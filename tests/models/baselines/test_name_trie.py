from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.features.token_config import CasedTokenConfig, TokenConfig
from ontodex.features.tokens import tokenise_corpus
from ontodex.models.baselines.name_trie import (
    MAX_FORMS,
    ConceptNames,
    NameTrie,
    Spelling,
    generate_variants,
    strip_plural,
)
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc

ONTOLOGY = build_ontology(
    [
        Concept("who", names={"en": "World Health Organization"}, synonyms={"en": ["WHO"]}),
        Concept("law", names={"en": "law"}, synonyms={"en": ["legal act", "statutes"]}),
        Concept("sealaw", names={"en": "law of the sea"}, parents=["law"]),
        Concept("anemia", names={"en": "Anemia, Sickle Cell"}),
        Concept("bank1", names={"en": "bank (finance)"}),
        Concept("bank2", names={"en": "bank (river)"}),
    ]
)


def find_names(text: str, spelling: Spelling = Spelling()) -> list[tuple[str, str, bool]]:  # noqa: B008
    """Return (words of the text, concept, True inside a longer match)."""
    ids = ONTOLOGY.ids
    config = CasedTokenConfig()
    names = ConceptNames.of(
        ONTOLOGY, {label: i for i, label in enumerate(ids)}, {"en": config}, spelling
    )
    tokens = tokenise_corpus(Corpus.of([Doc("d", {"text": text})]), config)
    matches = names.trie.find(tokens, spelling)
    return [
        (" ".join(tokens[0][start:stop]), ids[names.columns[at]], bool(inside))
        for start, stop, name, inside in zip(
            matches.starts, matches.stops, matches.names, matches.inside, strict=True
        )
        for at in range(names.indptr[name], names.indptr[name + 1])
    ]


def test_names_are_found_in_singular_and_plural_without_stop_words():
    assert find_names("The laws of seas") == [
        ("laws of seas", "sealaw", False),
        ("laws", "law", True),
    ]
    assert find_names("a statute, a Statute") == [
        ("statute", "law", False),
        ("Statute", "law", False),
    ]


def test_a_short_name_in_capitals_is_not_a_word():
    assert find_names("those who asked the WHO") == [("WHO", "who", False)]


def test_names_with_exchanged_parts_and_names_without_their_qualifier_are_found():
    assert find_names("sickle cell anemia") == [("sickle cell anemia", "anemia", False)]
    assert find_names("act of legal force") == [("act of legal", "law", False)]
    assert find_names("at the bank") == [("bank", "bank1", False), ("bank", "bank2", False)]


def test_exact_words_on_request():
    exact = Spelling(stem="none", skip=())
    assert find_names("laws", exact) == []
    assert find_names("law of the sea", exact)[0] == ("law of the sea", "sealaw", False)


def test_names_never_run_across_documents():
    corpus = Corpus.of([Doc("1", {"text": "legal"}), Doc("2", {"text": "act"})])
    trie = NameTrie([("legal", "act")])
    assert len(trie.find(tokenise_corpus(corpus, TokenConfig()), Spelling()).rows) == 0


def test_no_names_and_no_documents_give_no_matches():
    nothing = tokenise_corpus(Corpus.of([]), TokenConfig())
    text = tokenise_corpus(Corpus.of([Doc("1", {"text": "legal act"})]), TokenConfig())
    assert len(NameTrie([]).find(text, Spelling()).rows) == 0
    assert len(NameTrie([("act",)]).find(nothing, Spelling()).rows) == 0


def test_plural_endings():
    pairs = {
        "laws": "law", "policies": "policy", "boxes": "box", "classes": "class", "gas": "gas",
        "process": "process", "virus": "virus", "analysis": "analysis", "ties": "tie",
    }  # fmt: skip
    assert {word: strip_plural(word) for word in pairs} == pairs


def test_variants_of_a_name():
    found = list(generate_variants("Law, Roman (old)"))
    assert found == ["Law, Roman (old)", "Law, Roman", "Roman Law"]
    assert list(generate_variants("a, b, c")) == ["a, b, c"]


def matches_by_loops(names: list[tuple[str, ...]], docs: list[list[str]]) -> set[tuple]:
    found = []
    for row, words in enumerate(docs):
        for start in range(len(words)):
            for number, name in enumerate(names):
                if tuple(words[start : start + len(name)]) == name:
                    found.append((row, start, start + len(name), number))
    return {
        (row, start, stop, number,
         any(r == row and a <= start and stop <= b and (a, b) != (start, stop)
             for r, a, b, _ in found))
        for row, start, stop, number in found
    }  # fmt: skip


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple), unique=True),
    st.lists(st.lists(st.sampled_from("abcd"), max_size=8), max_size=4),
)
@settings(max_examples=50, deadline=None)
def test_all_matches_equal_the_search_in_loops(names, docs):
    # Spelled so that no word is a stop word, a plural or an acronym.
    spell = {"a": "xa", "b": "xb", "c": "xc", "d": "xd"}
    names = [tuple(spell[w] for w in name) for name in names]
    docs = [[spell[w] for w in words] for words in docs]
    corpus = Corpus.of(Doc(str(i), {"text": " ".join(words)}) for i, words in enumerate(docs))
    found = NameTrie(names).find(tokenise_corpus(corpus, TokenConfig()), Spelling())
    arrays = (found.rows, found.starts, found.stops, found.names, found.inside)
    ours = list(zip(*(array.tolist() for array in arrays), strict=True))
    assert len(set(ours)) == len(ours)
    assert set(ours) == matches_by_loops(names, docs)


def test_each_distinct_word_of_the_names_is_normalised_once():
    words: list[str] = []

    class CountingSpelling(Spelling):
        def normalise(self, word: str) -> str:
            words.append(word)
            return super().normalise(word)

    normalise = CountingSpelling().make_normaliser(CasedTokenConfig())
    names = ["Lakes and Rivers", "Rivers, Frozen", "frozen lakes", "Lakes and Rivers"]
    forms = [normalise(name) for name in names]
    assert forms == [
        ("lake", "river"), ("river", "frozen"), ("frozen", "lake"), ("lake", "river"),
    ]  # fmt: skip
    assert sorted(words) == ["Frozen", "Lakes", "Rivers", "and", "frozen", "lakes"]


def test_variants_of_names_with_spaces_and_qualifiers():
    assert list(generate_variants("bank  (river) ")) == ["bank  (river) ", "bank"]
    assert list(generate_variants("bank (a) (b)")) == ["bank (a) (b)", "bank (a)"]
    assert list(generate_variants("(river)")) == ["(river)"]
    assert list(generate_variants("bank ")) == ["bank "]


def test_a_name_longer_than_the_limit_keeps_its_number_and_matches_nothing():
    """A name of 262,144 words took an array step for each: 25 times a benign vocabulary."""
    at, above = ["sea"] * MAX_FORMS, ["law"] * (MAX_FORMS + 1)
    trie = NameTrie([above, at, ["law"], ["oak"] * 1_000_000])
    corpus = Corpus.of([Doc("a", {"text": " ".join([*at, "between", *above])})])
    found = trie.find(tokenise_corpus(corpus, TokenConfig()), Spelling())
    assert set(found.names.tolist()) == {1, 2}
    assert found.names.tolist().count(1) == 1
    assert len(trie._keys) == 1 + MAX_FORMS  # no step for the others
