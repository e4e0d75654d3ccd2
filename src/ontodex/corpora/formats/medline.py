"""MEDLINE/PubMed XML: baseline and update files, plain or packed.

A citation becomes a Doc:
    id          PMID
    fields      title and abstract; sections of a structured abstract are lines, "METHODS: ..."
    labels      ids of MeSH descriptors
    keywords    keywords of the authors
    metadata    year, journal, language, status (if not MEDLINE), version (if above 1), `major`
                (descriptors marked as major topic, themselves or in a qualifier) and `qualifiers`
                ({descriptor: [qualifier ids]})
Inline markup is removed.

Citations in the DeleteCitation list of the file are left out. Of several citations with one PMID
the highest version is read, and the last of equal versions.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ontodex.corpora.parsing.capabilities import FormatCapabilities, drop_empty
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.records import Records
from ontodex.errors import DataError, require
from ontodex.io import xml
from ontodex.io.files import open_atomic_packed
from ontodex.types import Doc

logger = logging.getLogger(__name__)

_STARTS = (b"<PubmedArticleSet", b"<MedlineCitationSet", b"<PubmedArticle>", b"<MedlineCitation ")
# No part may contain "<": then the matches tried at two tags never overlap, and time is linear.
_CITATION = re.compile(rb"<MedlineCitation\b[^<>]*>\s*<PMID([^<>]*)>([^<]*)<")
_DELETION = re.compile(rb"<PMID([^<>]*)>([^<]*)<")
_DELETIONS = b"<DeleteCitation"
_VERSION = re.compile(rb"""\bVersion\s*=\s*["'](\d{1,9})["']""")
_LONGEST = 1_000  # bytes from <MedlineCitation to the end of its PMID
# Keyword lists of owners other than the authors are written by indexers.
_PARTS = (
    "PMID | Article/Journal/JournalIssue/PubDate | Article/Journal/Title | Article/ArticleTitle"
    " | Article/Abstract/AbstractText | Article/Language | KeywordList[@Owner='NOTNLM']/Keyword"
)
_HEADINGS = "MeshHeadingList/MeshHeading/*"
_YEAR = re.compile(r"\b\d{4}\b")
_UNNAMED = ("UNLABELLED", "UNASSIGNED")  # labels of sections without a label
_UNKNOWN_LANGUAGE = "und"
# Line ends separate sections; the other characters are not allowed in XML.
_BREAKS = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

CAPABILITIES = FormatCapabilities(
    fields="title and abstract",
    empty_fields=False,
    keywords=True,
    places=frozenset({"year", "journal", "language", "status", "version", "major", "qualifiers"}),
    breaks=_BREAKS,
    label_forbids=_BREAKS,
    id_forbids=re.compile(f"\n|{_BREAKS.pattern}"),
)


def looks_like(head: Head) -> bool:
    """Recognise the first elements of a PubMed file."""
    return any(start in head.start for start in _STARTS)


def read(path: Path) -> Records[Any]:
    """Read the citations of a file in order, one in memory at a time; skip books."""
    deleted, winner = _find_current(path)
    met: dict[str, int] = {}
    n_books = n_outdated = 0

    def citations() -> Iterator[tuple[int, Any]]:
        for element in xml.read_elements(path, ("MedlineCitation", "PubmedBookArticle")):
            yield element.sourceline, element
        if n_books:
            logger.warning("%s: %s book records were skipped", path, f"{n_books:,}")
        if n_outdated:
            logger.info("%s: %s deleted or outdated citations left out", path, f"{n_outdated:,}")

    def parse(_: int, element: Any) -> Doc | None:
        nonlocal n_books, n_outdated
        if element.tag == "PubmedBookArticle":
            n_books += 1
            return None
        doc = _make_doc(element)
        if doc.id in winner:
            met[doc.id] = met.get(doc.id, -1) + 1
        if doc.id in deleted or met.get(doc.id) != winner.get(doc.id):
            n_outdated += 1
            return None
        return doc

    records = Records(path, citations(), parse)
    records.deleted = deleted
    return records


def _find_current(path: Path) -> tuple[frozenset[str], dict[str, int]]:
    """Return the deleted PMIDs; and for each repeated PMID the occurrence (from 0) to read.

    The bytes are scanned, because the list of deletions is the last element of a file and parsing
    it twice would double the time.
    """
    deleted: set[str] = set()
    version_of: dict[str, int] = {}
    repeated: dict[str, list[int]] = {}
    for is_deletion, pmid, version in _scan_pmids(path):
        if is_deletion:
            deleted.add(pmid)
        elif pmid in version_of:
            repeated.setdefault(pmid, [version_of[pmid]]).append(version)
        else:
            version_of[pmid] = version
    winner = {
        pmid: max(range(len(versions)), key=lambda i: (versions[i], i))
        for pmid, versions in repeated.items()
    }
    return frozenset(deleted), winner


def _scan_pmids(path: Path) -> Iterator[tuple[bool, str, int]]:
    """Yield (is a deletion, PMID, version) of every citation, then of every deletion."""
    pattern, window = _CITATION, b""
    for block in chain(xml.read_blocks(path), (b"",)):
        window += block
        cut = window.find(_DELETIONS) if pattern is _CITATION else -1
        done = 0
        for match in pattern.finditer(window, 0, cut if cut >= 0 else len(window)):
            version = _VERSION.search(match[1])
            yield (
                pattern is _DELETION,
                match[2].decode(errors="replace").strip(),
                int(version[1]) if version else 1,
            )
            done = match.end()
        if cut >= 0:
            pattern, window = _DELETION, window[cut:]
        else:
            window = window[max(done, len(window) - _LONGEST) :]


def _make_doc(citation: Any) -> Doc:
    parts: dict[str, list[Any]] = {}
    for part in _compile_xpath(_PARTS)(citation):
        parts.setdefault(part.tag, []).append(part)
    pmid = _get_text(parts["PMID"][0]) if "PMID" in parts else ""
    if not pmid:
        raise DataError("a MedlineCitation without a PMID")
    labels, headings = _get_headings(citation)
    metadata = _get_metadata(parts) | headings
    if (status := citation.get("Status", "MEDLINE")) != "MEDLINE":
        metadata["status"] = status
    keywords = tuple(filter(None, map(_get_text, parts.get("Keyword", ()))))
    return Doc(pmid, _get_fields(parts), keywords, labels, metadata)


def _get_fields(parts: dict[str, list[Any]]) -> dict[str, str]:
    fields = {"title": "".join(map(_get_text, parts.get("ArticleTitle", ())))}
    if "AbstractText" in parts:
        fields["abstract"] = "\n".join(map(_get_section, parts["AbstractText"]))
    return drop_empty(fields)


def _get_section(part: Any) -> str:
    text, label = _get_text(part), part.get("Label")
    return f"{label}: {text}" if text and label and label.upper() not in _UNNAMED else text


def _get_metadata(parts: dict[str, list[Any]]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if "PubDate" in parts and (year := _YEAR.search("".join(parts["PubDate"][0].itertext()))):
        metadata["year"] = int(year[0])
    if "Title" in parts and (journal := _get_text(parts["Title"][0])):
        metadata["journal"] = journal
    languages = " ".join(map(_get_text, parts.get("Language", ())))
    if languages and languages != _UNKNOWN_LANGUAGE:
        metadata["language"] = languages
    if (version := parts["PMID"][0].get("Version", "1")) != "1" and version.isdecimal():
        metadata["version"] = int(version)
    return metadata


def _get_headings(citation: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return MeSH descriptors in file order, each once, and metadata about them."""
    labels: dict[str, bool] = {}
    qualifiers: dict[str, list[str]] = {}
    label = ""
    for name in _compile_xpath(_HEADINGS)(
        citation
    ):  # a DescriptorName, its QualifierNames, and so on
        identifier = name.get("UI") or _get_text(name)  # files before 2013 have no ids
        if name.tag == "DescriptorName":
            label = identifier
        elif identifier not in (known := qualifiers.setdefault(label, [])):
            known.append(identifier)
        labels[label] = labels.get(label, False) or name.get("MajorTopicYN") == "Y"
    labels.pop("", None)  # a heading without a name
    found: dict[str, Any] = {}
    if major := [label for label, is_major in labels.items() if is_major]:
        found["major"] = major
    if qualifiers:
        found["qualifiers"] = qualifiers
    return tuple(labels), found


@cache
def _compile_xpath(path: str) -> Any:
    """Compile an XPath; one path for all parts of a citation is faster than one per part."""
    return require("lxml.etree", extra="all", purpose="reading XML").XPath(path)


def _get_text(element: Any) -> str:
    """Return the text of an element without markup, on one line."""
    text: str = "".join(element.itertext()) if len(element) else element.text or ""
    return " ".join(text.split()) if "\n" in text else text


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write PubMed XML, compressed by the ending of the name, and return the number of documents.

    Each line of the abstract becomes a section.
    """
    count = 0
    with open_atomic_packed(path) as file:
        file.write(b'<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n')
        for doc in docs:
            file.write(_BREAKS.sub(" ", _format_article(doc)).encode())
            count += 1
        file.write(b"</PubmedArticleSet>\n")
    return count


def _format_article(doc: Doc) -> str:
    """Return a PubmedArticle with the elements that the DTD requires and those of the document."""
    meta = doc.metadata
    year = str(meta.get("year", ""))
    date = f"<Year>{year}</Year>" if _YEAR.fullmatch(year) else "<MedlineDate/>"
    journal = escape(str(meta.get("journal", "")))
    languages = str(meta.get("language") or _UNKNOWN_LANGUAGE).split()
    title = doc.fields.get("title", "").replace("\n", " ")
    sections = escape(doc.fields.get("abstract", "")).replace("\n", "</AbstractText><AbstractText>")
    abstract = f"<Abstract><AbstractText>{sections}</AbstractText></Abstract>" if sections else ""
    return (
        '<PubmedArticle><MedlineCitation Owner="NLM" '
        f"Status={quoteattr(str(meta.get('status') or 'MEDLINE'))}>"
        f"<PMID Version={quoteattr(str(meta.get('version', 1)))}>{escape(doc.id)}</PMID>"
        '<Article PubModel="Print"><Journal><JournalIssue CitedMedium="Print">'
        f"<PubDate>{date}</PubDate></JournalIssue>{_wrap('Title', journal)}</Journal>"
        f"<ArticleTitle>{escape(title)}</ArticleTitle>"
        f"<Pagination><MedlinePgn/></Pagination>{abstract}"
        f"{''.join(f'<Language>{escape(tag)}</Language>' for tag in languages)}"
        '<PublicationTypeList><PublicationType UI="D016428">Journal Article</PublicationType>'
        "</PublicationTypeList></Article>"
        f"<MedlineJournalInfo><MedlineTA>{journal}</MedlineTA></MedlineJournalInfo>"
        f"{_wrap('MeshHeadingList', _format_headings(doc))}"
        f"{_format_keywords(doc.keywords)}</MedlineCitation></PubmedArticle>\n"
    )


def _format_headings(doc: Doc) -> str:
    major, qualifiers = doc.metadata.get("major", []), doc.metadata.get("qualifiers", {})
    if not isinstance(major, list) or not isinstance(qualifiers, dict):
        raise DataError(
            f"document {doc.id!r}: metadata 'major' must be a list and 'qualifiers' an object"
        )
    parts = []
    for label in doc.labels:
        is_major = "Y" if label in major else "N"
        parts += [f"<MeshHeading><DescriptorName UI={quoteattr(label)} "]
        parts += [f'MajorTopicYN="{is_major}"/>']
        for qualifier in qualifiers.get(label, ()):
            parts += [f'<QualifierName UI={quoteattr(str(qualifier))} MajorTopicYN="N"/>']
        parts += ["</MeshHeading>"]
    return "".join(parts)


def _format_keywords(keywords: Iterable[str]) -> str:
    words = "".join(f'<Keyword MajorTopicYN="N">{escape(word)}</Keyword>' for word in keywords)
    return f'<KeywordList Owner="NOTNLM">{words}</KeywordList>' if words else ""


def _wrap(tag: str, content: str) -> str:
    return f"<{tag}>{content}</{tag}>" if content else ""
