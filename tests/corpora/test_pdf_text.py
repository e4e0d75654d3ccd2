"""PDFs: paragraphs instead of lines, a title, and scanned pages that are named as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from growth import limit_processor_time
from ontodex.corpora.extract_process import read_documents
from ontodex.corpora.pdf_text import join_lines, read_pdf, remove_title
from ontodex.errors import DataError

Line = tuple[int, str]  # size of the letters, text
BODY = [
    (10, "Trout return to the restored streams of the city, and with them come"),
    (10, "the anglers. A well-known survey counted the fish before and after resto-"),
    (10, "ration, and found a well-"),
    (10, "known effect."),
    (10, "Nothing of the kind was found in the canals, whose water is too warm for"),
    (10, "trout in every summer of the last decade."),
]


def make_pdf(path: Path, pages: list[list[Line]], *, title: str = "", image: bool = False) -> Path:
    """Write a PDF with these lines on its pages; `image` puts a picture on each of them."""
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    picture = "/XObject << /I 4 0 R >>" if image else ""
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray "
        "/BitsPerComponent 8 /Length 1 >> stream\n0\nendstream",
    ]
    for lines in pages:
        shown = [f"/F1 {size} Tf 1 0 0 1 72 {760 - 20 * n} Tm ({text}) Tj"
                 for n, (size, text) in enumerate(lines)]  # fmt: skip
        stream = ("/I Do " if image else "") + f"BT {' '.join(shown)} ET"
        parts.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Contents {len(parts) + 2} 0 R /Resources << /Font << /F1 3 0 R >> {picture} >> >>"
        )
        parts.append(f"<< /Length {len(stream)} >> stream\n{stream}\nendstream")
    parts.append(f"<< /Title ({title}) >>")
    out, places = "%PDF-1.4\n", []
    for number, part in enumerate(parts, start=1):
        places.append(len(out))
        out += f"{number} 0 obj {part} endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    out += f"xref\n0 {len(parts) + 1}\n0000000000 65535 f \n{table}trailer "
    info = f"<< /Size {len(parts) + 1} /Root 1 0 R /Info {len(parts)} 0 R >>"
    start = out.index("xref\n0")
    path.write_text(f"{out}{info}\nstartxref\n{start}\n%%EOF", encoding="latin-1")
    return path


def test_lines_become_paragraphs_and_hyphens_are_undone(tmp_path: Path) -> None:
    _, text = read_pdf(make_pdf(tmp_path / "a.pdf", [BODY]), 10_000)
    assert text.split("\n") == [
        "Trout return to the restored streams of the city, and with them come the anglers. A "
        "well-known survey counted the fish before and after restoration, and found a well-known "
        "effect.",
        "Nothing of the kind was found in the canals, whose water is too warm for trout in every "
        "summer of the last decade.",
    ]


def test_the_largest_lines_of_the_first_page_are_the_title(tmp_path: Path) -> None:
    head = [(18, "Brown trout in"), (18, "restored streams"), (12, "Ada Lovelace")]
    (doc,) = read_documents(make_pdf(tmp_path / "a.pdf", [head + BODY, BODY]), "a.pdf")
    assert doc.fields["title"] == "Brown trout in restored streams"
    assert doc.fields["text"].startswith("Ada Lovelace\nTrout return")


def test_the_title_of_the_metadata_is_taken_unless_it_names_a_file(tmp_path: Path) -> None:
    pages = [[(18, "A survey of trout"), *BODY]]
    named = make_pdf(tmp_path / "a.pdf", pages, title="Trout, a Survey")
    assert read_pdf(named, 10_000)[0] == "Trout, a Survey"
    for title in ("Microsoft Word - trout.doc", "untitled", "trout_final.docx", "12"):
        path = make_pdf(tmp_path / "b.pdf", pages, title=title)
        assert read_pdf(path, 10_000)[0] == "A survey of trout"


def test_a_text_in_letters_of_one_size_has_no_title(tmp_path: Path) -> None:
    (doc,) = read_documents(make_pdf(tmp_path / "a.pdf", [BODY]), "a.pdf")
    assert list(doc.fields) == ["text"]


def test_a_scanned_pdf_is_named_as_such(tmp_path: Path) -> None:
    scanned = make_pdf(tmp_path / "a.pdf", [[], []], image=True)
    with pytest.raises(DataError, match=r"no text layer; it looks scanned: run OCR.*ocrmypdf"):
        list(read_documents(scanned, "a.pdf"))
    blank = make_pdf(tmp_path / "b.pdf", [[]])
    with pytest.raises(DataError, match=r"^has no text$"):
        list(read_documents(blank, "b.pdf"))


def test_single_scanned_pages_are_warned_of(tmp_path: Path, caplog) -> None:
    path = make_pdf(tmp_path / "a.pdf", [BODY, [], []], image=True)
    assert read_pdf(path, 10_000)[1].startswith("Trout return")
    assert "without a text layer, and probably scanned: 2 of 3 pages" in caplog.text


@pytest.mark.parametrize(
    ("lines", "paragraphs"),
    [
        ([], []),
        (["one", "", "two"], ["one", "two"]),
        (["full line of a text that goes", "on here."], ["full line of a text that goes on here."]),
        (["a list of things follows here:", "- first", "- second"],
         ["a list of things follows here:", "- first", "- second"]),
        (["Methods", "We counted the fish in every stream."],
         ["Methods", "We counted the fish in every stream."]),
        (["counted in the years 1990-", "1995 in many of the streams"],
         ["counted in the years 1990- 1995 in many of the streams"]),
        (["soft hy\u00ad", "phen"], ["soft hyphen"]),
    ],
)  # fmt: skip
def test_joining_lines(lines: list[str], paragraphs: list[str]) -> None:
    assert list(join_lines(lines)) == paragraphs


def test_a_title_is_taken_out_of_the_first_lines_only() -> None:
    lines = ["Journal", "Brown", "TROUT", "text", "Brown trout"]
    assert remove_title(lines, "Brown trout") == ["Journal", "text", "Brown trout"]
    assert remove_title(lines, "") == lines
    assert remove_title(lines, "Other") == lines


def test_long_words_and_paragraphs_of_many_lines_take_linear_time() -> None:
    word, lines = "a" * 200_000, ["broken-"] * 100_000
    with limit_processor_time(60):
        assert list(join_lines([word, "b"])) == [f"{word} b"]
        assert list(join_lines(lines)) == ["broken" * 99_999 + "broken-"]
        assert len(
            list(join_lines(["A full line of text that is never ended by a stop"] * 100_000))
        )


def test_a_word_broken_twice_is_looked_up_as_a_whole() -> None:
    lines = ["the under-cover", "a long line of text with the un-", "der-", "cover of the rain"]
    assert " ".join(join_lines(lines)).count("under-cover") == 2


@pytest.mark.parametrize("open_bracket", [b"[", b"<<", b"("])
def test_brackets_without_end_are_refused(tmp_path: Path, open_bracket: bytes) -> None:
    """Nested arrays ended the process with a RecursionError, and no reason was given."""
    content = open_bracket * 10_000
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R "
        b"/Resources << /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /A >> >> >> >>",
        b"<< /Length %d >> stream\n%s\nendstream" % (len(content), content),
    ]
    objects = [b"%d 0 obj %s endobj\n" % (number, part) for number, part in enumerate(parts, 1)]
    starts = [9 + sum(map(len, objects[:i])) for i in range(len(objects))]
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    end = b"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        9 + sum(map(len, objects))
    )
    start = b"%PDF-1.4\n" + b"".join(objects) + b"xref\n0 5\n0000000000 65535 f \n"
    (tmp_path / "a.pdf").write_bytes(start + table + end)
    with pytest.raises(DataError, match="not a readable PDF"):
        read_pdf(tmp_path / "a.pdf", 1_000)
