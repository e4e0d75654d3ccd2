from __future__ import annotations

import pytest

from ontodex.errors import ConfigError
from ontodex.features.languages import (
    LANGUAGES,
    STOP_WORDS,
    choose_language,
    find_foreign_language,
    find_language,
    find_languages,
    guess_language,
    has_lemmas,
    list_names,
    match_tag,
    name_language,
)

TEXTS = {
    "en": "The fish in this river have come back because the water is clean again.",
    "de": "Die Fische sind in den Fluss zurückgekehrt, weil das Wasser wieder sauber ist.",
    "fi": "Kalat ovat palanneet jokeen, koska vesi on taas puhdasta, ja niitä on nyt enemmän.",
    "sv": "Fiskarna har kommit tillbaka till ån eftersom vattnet är rent igen och de trivs där.",
    "da": "Fiskene er kommet tilbage til åen, fordi vandet er rent igen, og nu er der mange.",
    "fr": "Les poissons sont revenus dans la rivière parce que l'eau est de nouveau propre.",
    "es": "Los peces han vuelto al río porque el agua está limpia otra vez y hay más vida.",
    "it": "I pesci sono tornati nel fiume perché l'acqua è di nuovo pulita e non c'è più fango.",
    "pl": "Ryby wróciły do rzeki, ponieważ woda jest znowu czysta, a nie tak jak przedtem.",
    "cs": "Ryby se vrátily do řeky, protože voda je opět čistá a není v ní tolik bahna.",
    "ru": "Рыба вернулась в реку, потому что вода снова чистая, и её там теперь много.",
    "el": "Τα ψάρια επέστρεψαν στο ποτάμι επειδή το νερό είναι και πάλι καθαρό.",  # noqa: RUF001
    "hu": "A halak visszatértek a folyóba, mert a víz ismét tiszta, és már nem olyan sáros.",
    "zh": "鱼又回到了河里,因为水是干净的,这对我们很好。",
    "ja": "水がきれいになったので、魚は川に戻りました。",
}


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_sentence_is_guessed(language):
    assert guess_language(TEXTS[language]) == language


def test_a_text_without_function_words_has_no_guess():
    assert guess_language("") == ""
    assert guess_language("Oncorhynchus mykiss 2020") == ""
    assert guess_language("DIN 4711, DIN 4712, DIN EN 4713") == ""  # "din" is Danish, DIN is not


def test_a_text_is_read_in_the_language_of_the_run_that_fits_best():
    assert choose_language(TEXTS["en"], ("de", "en")) == "en"
    assert choose_language(TEXTS["de"], ("en", "de")) == "de"


def test_dictionaries_decide_where_a_title_has_no_stop_word():
    pytest.importorskip("simplemma")
    assert choose_language("Wasserqualität", ("en", "de")) == "de"
    assert choose_language("Water quality", ("de", "en")) == "en"
    assert choose_language("1984", ("de", "en")) == "de"  # nothing decides: the first


def test_a_text_in_another_language_is_foreign_and_a_name_in_it_is_not():
    assert find_foreign_language(TEXTS["sv"], ("fi", "en")) == "sv"
    assert find_foreign_language(TEXTS["fi"], ("fi", "en")) == ""
    assert find_foreign_language("Goethe: Die Leiden des jungen Werther", ("en",)) == ""
    assert find_foreign_language(TEXTS["sv"], ()) == ""


def test_languages_are_given_by_code_tag_or_name():
    for name in ("fi", "FI", "fin", "Finnish", "suomi", "fi-FI", "fi_FI"):
        assert find_language(name) == "fi"
    assert (find_language("hr"), find_language("no")) == ("hbs", "nb")
    assert find_languages(["German", "en", "de"]) == ("de", "en")
    assert find_languages("none") == ()
    with pytest.raises(ConfigError, match="did you mean 'Finnish'"):
        find_language("Finish")


def test_tags_of_a_vocabulary_are_found_by_language():
    tags = ["de", "en", "en-gb", "sr-latn", "xx"]
    assert match_tag("English", tags) == "en"
    assert match_tag("en-gb", tags) == "en-gb"
    assert match_tag("Serbian", tags) == "sr-latn"
    assert match_tag("xx", tags) == "xx"
    assert match_tag("fi", tags) is None


def test_names_are_for_people():
    assert (name_language("fi"), name_language("xx")) == ("Finnish", "xx")
    assert list_names(["de", "en", "fi"]) == "German, English and Finnish"


def test_every_language_with_lemmas_is_in_the_table_and_nearly_all_have_stop_words():
    factory = pytest.importorskip("simplemma.strategies.dictionaries.dictionary_factory")
    assert set(factory.SUPPORTED_LANGUAGES) <= set(LANGUAGES)
    assert len(set(factory.SUPPORTED_LANGUAGES) - set(STOP_WORDS)) <= 4
    assert has_lemmas("fi")
    assert not has_lemmas("vi")
    aliases = [alias for found in LANGUAGES.values() for alias in (*found.aliases, found.code)]
    assert len(aliases) == len(set(aliases))
