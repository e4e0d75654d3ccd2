"""Subject fields of MARC 21 in MarcEdit's line format, with the code of the vocabulary.

    =650  \\7$aVolkswirtschaft$2stw$0http://zbw.eu/stw/descriptor/1

The second indicator of 650 and 655 names the vocabulary: 0 LCSH, 2 MeSH, 7 the code in $2. Codes
are those of the Library of Congress (Subject Heading and Term Source Codes). 653 is for terms of
no vocabulary, and has no code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

MarcField = Literal["650", "655", "653"]

LEADER = "=LDR  00000nam a2200000 a 4500"  # MarcEdit compiles no record without one
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
    (r"https?://id\.loc\.gov/authorities/subjects/", "lcsh", ""),
    (r"https?://id\.worldcat\.org/fast/", "fast", ""),
    (r"https?://vocab\.getty\.edu/aat/", "aat", ""),
    (r"https?://vocabularies\.unesco\.org/thesaurus/", "unescot", ""),
)
_INDICATORS = {"lcsh": "0", "mesh": "2"}
_YSO_LANGUAGES = {"fi": "fin", "sv": "swe", "en": "eng"}  # its code has the language of the term


@dataclass(frozen=True)
class MarcOptions:
    """The field of the concepts, and the code of their vocabulary; "" finds it by their ids."""

    field: MarcField = "650"
    source: str = ""


DEFAULT_OPTIONS = MarcOptions()


def format_record(
    id_: str,
    labels: tuple[str, ...],
    name: Callable[[str], str],
    notation: Callable[[str], str],
    language: str,
    options: MarcOptions,
) -> str:
    """Return the lines of one document, with an empty line at the end."""
    codes = [f"=084  \\\\$a{escape_marc(code)}$2local" for code in map(notation, labels) if code]
    fields = [format_subject(label, name(label), language, options) for label in labels]
    return "\n".join([LEADER, f"=001  {escape_marc(id_)}", *codes, *fields, "", ""])


def format_subject(label: str, name: str, language: str, options: MarcOptions) -> str:
    """Return the line of one concept."""
    if options.field == "653":
        return f"=653  \\\\$a{escape_marc(name)}"
    found, number = find_source(label)
    source = options.source or found
    if source == "yso":
        source = f"yso/{_YSO_LANGUAGES.get(language, 'fin')}"
    indicator = _INDICATORS.get(source, "7")
    code = f"$2{escape_marc(source)}" if indicator == "7" else ""
    return f"={options.field}  \\{indicator}$a{escape_marc(name)}{code}$0{escape_marc(number)}"


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
