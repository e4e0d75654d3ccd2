"""PubMed XML: what becomes of each part of a citation, and which citations of a file count."""

from __future__ import annotations

import io
import logging
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from ontodex.corpora.detect import detect_format
from ontodex.corpora.formats import medline
from ontodex.corpora.open import read_docs, write_docs
from ontodex.errors import DataError
from ontodex.types import Doc

DOCTYPE = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2019//EN" '
    '"http://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_190101.dtd">\n'
)

FULL = """
  <PubmedArticle>
    <MedlineCitation Status="In-Process" Owner="NLM">
      <PMID Version="2">399296</PMID>
      <Article PubModel="Print">
        <Journal>
          <JournalIssue CitedMedium="Print">
            <PubDate><MedlineDate>1975 Dec-1976 Jan</MedlineDate></PubDate>
          </JournalIssue>
          <Title>Journal of rain</Title>
        </Journal>
        <ArticleTitle>Effects of <i>rain</i> on H<sub>2</sub>O &amp; crops.</ArticleTitle>
        <Abstract>
          <AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">It rains.</AbstractText>
          <AbstractText Label="UNLABELLED">Then it
            stops.</AbstractText>
          <CopyrightInformation>(c) Rain</CopyrightInformation>
        </Abstract>
        <Language>eng</Language>
        <Language>fre</Language>
      </Article>
      <CommentsCorrectionsList><CommentsCorrections><PMID>17</PMID></CommentsCorrections>
      </CommentsCorrectionsList>
      <MeshHeadingList>
        <MeshHeading>
          <DescriptorName UI="D000003" MajorTopicYN="N">Abattoirs</DescriptorName>
        </MeshHeading>
        <MeshHeading>
          <DescriptorName UI="D011891" MajorTopicYN="N">Rain</DescriptorName>
          <QualifierName UI="Q000009" MajorTopicYN="N">adverse effects</QualifierName>
          <QualifierName UI="Q000032" MajorTopicYN="Y">analysis</QualifierName>
        </MeshHeading>
        <MeshHeading>
          <DescriptorName UI="D018556" MajorTopicYN="Y">Crops</DescriptorName>
        </MeshHeading>
      </MeshHeadingList>
      <OtherAbstract Type="plain"><AbstractText>Not this one.</AbstractText></OtherAbstract>
      <KeywordList Owner="PIP"><Keyword>by an indexer</Keyword></KeywordList>
      <KeywordList Owner="NOTNLM"><Keyword>wet <b>fields</b></Keyword><Keyword>farms</Keyword>
      </KeywordList>
    </MedlineCitation>
    <PubmedData><ArticleIdList><ArticleId>399296</ArticleId></ArticleIdList></PubmedData>
  </PubmedArticle>
"""


def citation(pmid: str, title: str = "t", version: int = 1) -> str:
    return (
        f'<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="{version}">{pmid}</PMID>'
        f"<Article><ArticleTitle>{title}</ArticleTitle></Article></MedlineCitation>"
        "</PubmedArticle>\n"
    )


def deletion(*pmids: str) -> str:
    listed = "".join(f'<PMID Version="1">{pmid}</PMID>\n' for pmid in pmids)
    return f"<DeleteCitation>\n{listed}</DeleteCitation>"


def put(folder: Path, *articles: str) -> Path:
    path = folder / "pubmed.xml"
    path.write_text(f"{DOCTYPE}<PubmedArticleSet>{''.join(articles)}</PubmedArticleSet>")
    return path


def test_a_full_citation_becomes_a_document(tmp_path: Path) -> None:
    (doc,) = medline.read(put(tmp_path, FULL))
    assert doc == Doc(
        "399296",
        {
            "title": "Effects of rain on H2O & crops.",
            "abstract": "BACKGROUND: It rains.\nThen it stops.",
        },
        ("wet fields", "farms"),
        ("D000003", "D011891", "D018556"),
        {
            "year": 1975,
            "journal": "Journal of rain",
            "language": "eng fre",
            "major": ["D011891", "D018556"],  # the first through its qualifier
            "qualifiers": {"D011891": ["Q000009", "Q000032"]},
            "status": "In-Process",
            "version": 2,
        },
    )


def test_the_old_set_element_and_headings_without_ids_are_read(tmp_path: Path) -> None:
    path = tmp_path / "old.xml"
    path.write_text(
        "<MedlineCitationSet><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>A</ArticleTitle>"
        "</Article><MeshHeadingList><MeshHeading><DescriptorName>Rain</DescriptorName>"
        "</MeshHeading><MeshHeading><DescriptorName/></MeshHeading></MeshHeadingList>"
        "</MedlineCitation></MedlineCitationSet>"
    )
    assert detect_format(path) == "medline"
    assert list(read_docs(path)) == [Doc("1", {"title": "A"}, labels=("Rain",))]


def test_a_citation_without_an_abstract_has_no_such_field(tmp_path: Path) -> None:
    empty = citation("2").replace(
        "</ArticleTitle>", "</ArticleTitle><Abstract><AbstractText/></Abstract>"
    )
    docs = list(medline.read(put(tmp_path, citation("1"), empty)))
    assert [set(doc.fields) for doc in docs] == [{"title"}, {"title"}]


def test_deleted_citations_are_left_out(tmp_path: Path) -> None:
    path = put(tmp_path, citation("1"), citation("2"), citation("3"), deletion("2", "99"))
    assert [doc.id for doc in medline.read(path)] == ["1", "3"]


def test_of_several_citations_with_one_id_the_highest_then_the_last_counts(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        citation("1", "first", 1),
        citation("2", "newest", 3),
        citation("1", "again", 1),
        citation("2", "older", 2),
        citation("3", "single", 1),
    )
    assert [(doc.id, doc.text) for doc in medline.read(path)] == [
        ("2", "newest"),
        ("1", "again"),
        ("3", "single"),
    ]


@settings(deadline=None, max_examples=25)
@given(
    pmids=st.lists(st.integers(1, 30), max_size=60),
    gone=st.lists(st.integers(1, 40), max_size=10),
    padding=st.integers(0, 70_000),
)
def test_the_state_at_the_end_is_that_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, pmids: list[int], gone: list[int], padding: int
) -> None:
    """The byte scan works in blocks; padding moves their borders through everything."""
    articles = [citation(str(pmid), f"n{i}") for i, pmid in enumerate(pmids)]
    articles.insert(len(articles) // 2, "<!-- " + "x" * padding + " -->")
    path = put(tmp_path_factory.mktemp("pubmed"), *articles, deletion(*map(str, gone)))
    last = {str(pmid): f"n{i}" for i, pmid in enumerate(pmids) if pmid not in gone}
    assert {doc.id: doc.text for doc in medline.read(path)} == last
    assert len(list(medline.read(path))) == len(last)


def test_books_are_skipped_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    book = "<PubmedBookArticle><BookDocument><PMID>7</PMID></BookDocument></PubmedBookArticle>"
    with caplog.at_level(logging.INFO):
        docs = list(medline.read(put(tmp_path, book, citation("1"), book)))
    assert [doc.id for doc in docs] == ["1"]
    assert "2 book records were skipped" in caplog.text


def test_a_citation_without_an_id_is_an_error_at_its_line_and_the_next_is_read(
    tmp_path: Path,
) -> None:
    nameless = "<PubmedArticle>\n<MedlineCitation><Article/></MedlineCitation></PubmedArticle>\n"
    docs = medline.read(put(tmp_path, citation("1"), nameless, citation("2")))
    assert next(docs).id == "1"
    with pytest.raises(DataError, match=r"pubmed\.xml:5: a MedlineCitation without a PMID"):
        next(docs)
    assert next(docs).id == "2"


def test_a_truncated_file_gives_its_whole_citations_then_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, *(citation(str(i)) for i in range(2000)))
    path.write_bytes(path.read_bytes()[:-200])
    seen = []
    with pytest.raises(DataError, match="not well-formed"):
        for doc in medline.read(path):
            seen.append(doc.id)
    assert seen == [str(i) for i in range(1998)]


WORDS = st.text(
    string.ascii_letters + string.digits + "<>&\"' é\U0001f600", min_size=1, max_size=15
)
IDS = st.text(string.ascii_letters + string.digits, min_size=1, max_size=8)
LINES = st.lists(WORDS, min_size=1, max_size=3).map("\n".join)


@st.composite
def documents(draw: st.DrawFn) -> list[Doc]:
    docs = []
    for pmid in draw(st.lists(IDS, unique=True, max_size=4)):
        labels = draw(st.lists(IDS, unique=True, max_size=3))
        metadata: dict[str, object] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "year": st.integers(1000, 9999),
                    "journal": WORDS,
                    "language": st.sampled_from(["eng", "eng fre"]),
                    "status": st.just("Publisher"),
                    "version": st.integers(2, 9),
                },
            )
        )
        if labels:
            metadata |= {"major": labels[:1], "qualifiers": {labels[-1]: ["Q1", "Q2"]}}
        fields = draw(
            st.fixed_dictionaries({"title": WORDS}, optional={"abstract": LINES})
            | st.fixed_dictionaries({"abstract": LINES})
        )
        keywords = draw(st.lists(WORDS, max_size=2))
        docs.append(Doc(pmid, fields, tuple(keywords), tuple(labels), metadata))
    return docs


@settings(deadline=None, max_examples=50)
@given(docs=documents())
def test_written_documents_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, docs: list[Doc]
) -> None:
    path = tmp_path_factory.mktemp("pubmed") / "docs.xml.gz"
    assert write_docs(docs, path, "medline") == len(docs)
    assert list(medline.read(path)) == docs


def test_what_xml_cannot_hold_becomes_a_space_and_other_fields_join_the_abstract(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    doc = Doc("1", {"title": "a\x01b", "body": "c\x0bd", "text": "e"}, ("k\x02",), ("D1",))
    write_docs([doc], tmp_path / "x.xml", "medline")
    (back,) = medline.read(tmp_path / "x.xml")
    assert back == Doc("1", {"title": "a b", "abstract": "c d\ne"}, ("k ",), ("D1",))
    assert "joined to an abstract: 1 document" in caplog.text


def test_major_topics_that_are_no_list_are_refused(tmp_path: Path) -> None:
    doc = Doc("1", {"title": "a"}, labels=("D1",), metadata={"major": True})
    with pytest.raises(DataError, match="'major' must be a list"):
        write_docs([doc], tmp_path / "x.xml", "medline")
    assert not (tmp_path / "x.xml").exists()


# The elements that `write` uses, with the content models of PubMed's DTD reduced to them.
DTD = """
<!ELEMENT PubmedArticleSet (PubmedArticle)+>
<!ELEMENT PubmedArticle (MedlineCitation)>
<!ELEMENT MedlineCitation (PMID, Article, MedlineJournalInfo, MeshHeadingList?, KeywordList*)>
<!ATTLIST MedlineCitation Owner CDATA "NLM"
  Status (Completed|In-Process|PubMed-not-MEDLINE|In-Data-Review|Publisher|MEDLINE|OLDMEDLINE)
  #REQUIRED>
<!ELEMENT PMID (#PCDATA)> <!ATTLIST PMID Version CDATA #REQUIRED>
<!ELEMENT Article (Journal, ArticleTitle, Pagination, Abstract?, Language+, PublicationTypeList)>
<!ATTLIST Article PubModel (Print|Electronic) #REQUIRED>
<!ELEMENT Journal (JournalIssue, Title?)>
<!ELEMENT JournalIssue (PubDate)> <!ATTLIST JournalIssue CitedMedium (Internet|Print) #REQUIRED>
<!ELEMENT PubDate (Year | MedlineDate)>
<!ELEMENT Pagination (MedlinePgn)> <!ELEMENT Abstract (AbstractText+)>
<!ELEMENT PublicationTypeList (PublicationType+)>
<!ELEMENT PublicationType (#PCDATA)> <!ATTLIST PublicationType UI CDATA #REQUIRED>
<!ELEMENT MedlineJournalInfo (MedlineTA)>
<!ELEMENT MeshHeadingList (MeshHeading+)>
<!ELEMENT MeshHeading (DescriptorName, QualifierName*)>
<!ELEMENT DescriptorName (#PCDATA)>
<!ATTLIST DescriptorName UI CDATA #REQUIRED MajorTopicYN (Y|N) "N">
<!ELEMENT QualifierName (#PCDATA)>
<!ATTLIST QualifierName UI CDATA #REQUIRED MajorTopicYN (Y|N) "N">
<!ELEMENT KeywordList (Keyword+)> <!ATTLIST KeywordList Owner CDATA "NLM">
<!ELEMENT Keyword (#PCDATA)> <!ATTLIST Keyword MajorTopicYN (Y|N) "N">
""" + "".join(
    f"<!ELEMENT {tag} (#PCDATA)>"
    for tag in (
        *("Year", "MedlineDate", "Title", "ArticleTitle", "MedlinePgn", "AbstractText"),
        *("Language", "MedlineTA"),
    )
)


def test_written_files_are_valid(tmp_path: Path) -> None:
    metadata = {"year": 1978, "journal": "J", "major": ["D1"], "qualifiers": {"D1": ["Q1"]}}
    docs = [
        Doc("1", {"title": "t", "abstract": "a\nb"}, ("k",), ("D1", "D2"), metadata),
        Doc("2", {"title": "t"}, metadata={"year": "about 1970"}),
    ]
    write_docs(docs, tmp_path / "x.xml", "medline")
    dtd = etree.DTD(io.StringIO(DTD))
    assert dtd.validate(etree.parse(tmp_path / "x.xml")), dtd.error_log


@pytest.mark.data
def test_the_counts_of_a_real_baseline_file(real_data: Path) -> None:
    n_docs = n_labelled = n_both = 0
    descriptors: set[str] = set()
    for doc in medline.read(real_data / "medline" / "pubmed20n0014.xml.gz"):
        n_docs += 1
        n_labelled += bool(doc.labels)
        if doc.labels and "abstract" in doc.fields:
            n_both += 1
            descriptors.update(doc.labels)
    assert (n_docs, n_labelled, n_both, len(descriptors)) == (30_000, 29_998, 14_832, 9_315)


@pytest.mark.data
def test_real_citations_come_back_from_our_own_file(real_data: Path, tmp_path: Path) -> None:
    docs = medline.read(real_data / "medline" / "pubmed20n0014.xml.gz")
    some = [next(docs) for _ in range(500)]
    write_docs(some, tmp_path / "again.xml.gz", "medline")
    assert list(medline.read(tmp_path / "again.xml.gz")) == some
