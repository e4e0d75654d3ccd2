"""Subject fields of MARC 21 in MarcEdit's line format, with the code of the vocabulary.

    =650  \\7$aVolkswirtschaft$2stw$0http://zbw.eu/stw/descriptor/1
    =651  \\7$aBerlin$2gnd$0(DE-588)4005728-8

The class of a concept decides its field: a person, a corporate body, a meeting, a title, a period,
a topic, a place or a genre. The second indicator names the vocabulary: 0 LCSH, 2 MeSH, 7 the code
in $2. Codes are those of the Library of Congress (Subject Heading and Term Source Codes). 653 is
for terms of no vocabulary, and has no code.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

MarcField = Literal["650", "655", "653"]
TYPED_FIELDS = ("600", "610", "611", "630", "648", "650", "651", "655")

LEADER = "=LDR  00000nam a2200000 a 4500"  # MarcEdit compiles no record without one
_BLANK = "\\"  # an indicator without a value
LOCAL = "local"  # the code for vocabularies without one
# Ids of concepts, the code of their vocabulary, and what stands before the id in $0.
_SOURCES = (
    (r"https?://id\.nlm\.nih\.gov/mesh/", "mesh", ""),
    (r"(?=D\d{6}(\d{3})?$)", "mesh", "https://id.nlm.nih.gov/mesh/"),
    (r"https?://d-nb\.info/gnd/", "gnd", "(DE-588)"),
    (r"gnd:", "gnd", "(DE-588)"),
    (r"https?://zbw\.eu/stw/", "stw", ""),
    (r"https?://eurovoc\.europa\.eu/", "eurovoc", ""),
    (r"https?://www\.yso\.fi/onto/yso/", "yso", ""),
    (r"https?://aims\.fao\.org/aos/agrovoc/", "agrovoc", ""),
    (r"https?://id\.loc\.gov/authorities/(subjects|names)/", "lcsh", ""),
    (r"https?://id\.loc\.gov/authorities/childrensSubjects/", "lcshac", ""),
    (r"https?://id\.loc\.gov/authorities/genreForms/", "lcgft", ""),
    (r"https?://id\.worldcat\.org/fast/", "fast", ""),
    (r"https?://vocab\.getty\.edu/aat/", "aat", ""),
    (r"https?://vocabularies\.unesco\.org/thesaurus/", "unescot", ""),
)
_INDICATORS = {"lcsh": "0", "lcshac": "1", "mesh": "2", "cash": "5", "rvm": "6"}
_YSO_LANGUAGES = {"fi": "fin", "sv": "swe", "en": "eng"}  # its code has the language of the term
# The last part of the IRI of a class in the ontologies of GND, MADS (LCSH), MeSH, FOAF, schema.org.
_FIELD_OF_CLASS = {
    **dict.fromkeys(
        ("Person", "DifferentiatedPerson", "UndifferentiatedPerson", "Pseudonym", "PersonalName",
         "RoyalOrMemberOfARoyalHouse", "Gods", "Spirits", "LiteraryOrLegendaryCharacter",
         "Family", "FamilyName"),
        "600",
    ),
    **dict.fromkeys(
        ("CorporateBody", "CorporateName", "Company", "Organization", "OrganOfCorporateBody",
         "ReligiousCorporateBody", "MusicalCorporateBody", "FictiveCorporateBody"),
        "610",
    ),
    **dict.fromkeys(("ConferenceOrEvent", "SeriesOfConferenceOrEvent", "ConferenceName"), "611"),
    **dict.fromkeys(
        ("Work", "MusicalWork", "VersionOfAMusicalWork", "Manuscript", "CreativeWork", "Title"),
        "630",
    ),
    "Temporal": "648",
    **dict.fromkeys(
        ("SubjectHeading", "SubjectHeadingSensoStricto", "HistoricSingleEventOrEra", "Topic",
         "TopicalDescriptor"),
        "650",
    ),
    **dict.fromkeys(
        ("PlaceOrGeographicName", "TerritorialCorporateBodyOrAdministrativeUnit", "Country",
         "AdministrativeUnit", "MemberState", "NaturalGeographicUnit",
         "NameOfSmallGeographicUnitLyingWithinAnotherGeographicUnit", "BuildingOrMemorial",
         "ReligiousTerritory", "WayBorderOrLine", "ExtraterrestrialTerritory", "FictivePlace",
         "Place", "Geographic", "HierarchicalGeographic", "GeographicalDescriptor"),
        "651",
    ),
    **dict.fromkeys(("GenreForm", "PublicationType"), "655"),
}  # fmt: skip
_FAMILIES = ("Family", "FamilyName")
# The second indicator of 653 distinguishes kinds of terms.
_KINDS = {"600": "1", "610": "2", "611": "3", "648": "4", "650": "0", "651": "5", "655": "6"}


@dataclass(frozen=True)
class MarcOptions:
    """The form in which concepts are written.

    field     of concepts whose class decides none; 653 is for all concepts
    source    the code of their vocabulary; "" finds it by their ids
    fields    the field of the concepts of a class or concept scheme, by its IRI
    """

    field: MarcField = "650"
    source: str = ""
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)


DEFAULT_OPTIONS = MarcOptions()


@dataclass(frozen=True)
class Subject:
    """A concept of a document; its groups are its classes and concept schemes."""

    label: str
    name: str
    notation: str = ""
    groups: Sequence[str] = ()


def format_record(
    id_: str, subjects: Sequence[Subject], language: str, options: MarcOptions
) -> str:
    """Return the lines of one document, with an empty line at the end."""
    notations = [subject.notation for subject in subjects if subject.notation]
    codes = [f"=084  \\\\$a{escape_marc(code)}$2local" for code in notations]
    fields = [format_subject(subject, language, options) for subject in subjects]
    return "\n".join([LEADER, f"=001  {escape_marc(id_)}", *codes, *fields, "", ""])


def format_subject(subject: Subject, language: str, options: MarcOptions) -> str:
    """Return the line of one concept."""
    found, number = find_source(subject.label)
    name, tag = escape_marc(subject.name), find_field(subject.groups, options)
    if options.field == "653":
        return f"=653  {_BLANK}{_KINDS.get(tag, _BLANK)}$a{name}"
    source = options.source or found
    if source == "yso":
        source = f"yso/{_YSO_LANGUAGES.get(language, 'fin')}"
    indicator = _INDICATORS.get(source, "7")
    code = f"$2{escape_marc(source)}" if indicator == "7" else ""
    first = _get_first_indicator(tag, subject)
    return f"={tag}  {first}{indicator}$a{name}{code}$0{escape_marc(number)}"


def find_field(groups: Sequence[str], options: MarcOptions) -> str:
    """Return the field of a concept: by the options, by its classes, else the default."""
    given = (options.fields.get(group, "") for group in groups)
    known = (_FIELD_OF_CLASS.get(_get_local_name(group), "") for group in groups)
    return next(filter(None, (*given, *known)), options.field)


def _get_first_indicator(tag: str, subject: Subject) -> str:
    """Return how a name is entered: a surname before a comma, a family, or in direct order."""
    if tag == "600":
        if any(_get_local_name(group) in _FAMILIES for group in subject.groups):
            return "3"
        return "1" if "," in subject.name else "0"
    return {"610": "2", "611": "2", "630": "0"}.get(tag, _BLANK)


def _get_local_name(iri: str) -> str:
    return re.split(r"[/#:]", iri)[-1]


def find_source(label: str) -> tuple[str, str]:
    """Return the code of the vocabulary of a concept, and its number as $0 has it."""
    for pattern, code, prefix in _SOURCES:
        if (found := re.match(pattern, label)) is not None:
            return code, prefix + label[found.end() :] if prefix else label
    return LOCAL, label


def escape_marc(text: str) -> str:
    """Return one line, with the characters that MarcEdit reserves written by name."""
    names = {"{": "{lcub}", "}": "{rcub}", "$": "{dollar}", "\\": "{bsol}"}
    return "".join(names.get(letter, letter) for letter in " ".join(text.split()))
