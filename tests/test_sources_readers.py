"""Texts, web pages, PDF pages and pictures with their sidecars."""

from __future__ import annotations

import codecs
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from damage import pdf
from isthmus import budget
from isthmus.errors import BadInput
from isthmus.isolated import html as isolated
from isthmus.isolated.html import too_deep
from isthmus.sources import html
from isthmus.sources import text as texts
from test_sources import PNG, read, write

WORDS = "déjà vu – 猫"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_read_in_every_encoding_that_says_what_it_is(encoding: str, tmp_path: Path) -> None:
    documents, _ = read(write(tmp_path, {"a.txt": WORDS.encode(encoding)}))
    assert documents["a.txt"].text == WORDS


def test_big_endian_marks_are_known_too() -> None:
    assert texts.decode(codecs.BOM_UTF16_BE + WORDS.encode("utf-16-be"), "a") == WORDS
    assert texts.decode(codecs.BOM_UTF32_BE + WORDS.encode("utf-32-be"), "a") == WORDS


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            "caf\xe9".encode("latin-1"),
            "byte 3 is 0xe9. If it is Windows-1252: iconv -f WINDOWS-1252 -t UTF-8 'a b.txt'",
        ),
        ("no mark".encode("utf-16-le"), "byte 1 is NUL. If it is UTF-16: iconv -f UTF-16LE"),
        (codecs.BOM_UTF8 + b"ab\xff", "byte 5 is 0xff"),
        (codecs.BOM_UTF8 + "é\0".encode(), "byte 5 is NUL"),
        (codecs.BOM_UTF16_LE + b"a", "is not UTF-16-LE: byte 2 is 0x61. It is truncated"),
        (b"\x01\x02\x03abc", "3 of 6 characters are control characters, the first at byte 0"),
        (b"", "is empty"),
        (b" \r\n\t", "is empty"),
        (codecs.BOM_UTF8, "is empty"),
    ],
)
def test_what_is_no_text_says_where_and_what_to_try(data: bytes, why: str, tmp_path: Path) -> None:
    documents, skipped = read(write(tmp_path, {"a b.txt": data}))
    assert documents == {}
    assert why in skipped["a b.txt"]


def test_coloured_logs_are_text() -> None:
    assert texts.decode(b"\x1b[31mred\x1b[0m\x08\f", "a.log")


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        assert "\0" not in texts.decode(data, "a")
    except BadInput as error:
        assert str(error).startswith("is ")


def test_a_text_past_the_limit_is_skipped(tmp_path: Path) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(budget.TEXT_BYTES + 1)
    assert "larger than 64 MiB" in read(tmp_path)[1]["a.txt"]


PAGE = """<!doctype html><html><head><title> A
 page </title><style>p {}</style></head><body><script>no()</script><h1>One</h1><p>two <b>th</b>ree &amp; four</p>
<p>five<br>
six<ul><li>seven<li>eight</ul><div hidden>no</div><noscript>no</noscript><template>no</template><!-- no --></body>"""


def test_a_web_page_gives_its_title_and_what_is_seen(tmp_path: Path) -> None:
    documents, _ = read(write(tmp_path, {"a.html": PAGE}))
    assert documents["a.html"].text == "A page\nOne\ntwo three & four\nfive\nsix\nseven\neight"
    assert documents["a.html"].metadata["title"] == "A page"


@pytest.mark.parametrize("head", ['<meta charset="windows-1252">', "<?xml version='1.0' encoding='latin-1'?>"])
def test_a_web_page_may_name_its_encoding(head: str, tmp_path: Path) -> None:
    documents, _ = read(write(tmp_path, {"a.htm": f"{head}<p>café".encode("latin-1")}))
    assert documents["a.htm"].text == "café"


@pytest.mark.parametrize("head", ["", "<meta charset=no-such>", "<meta charset=zip>", "<meta charset=ascii>"])
def test_a_web_page_in_an_unknown_encoding_is_skipped(head: str, tmp_path: Path) -> None:
    assert "0xe9" in read(write(tmp_path, {"a.htm": f"{head}<p>café".encode("latin-1")}))[1]["a.htm"]


def test_a_page_that_shows_nothing_or_nests_without_end_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"a.html": "<script>x</script>", "b.html": "<div>" * 50_000})
    assert {name: why.partition(":")[0] for name, why in read(tmp_path)[1].items()} == {
        "a.html": "is empty",
        "b.html": "nests elements more than 10,000 deep. It is malformed",
    }
    assert too_deep(b"<div>" * 5, 4)
    assert not too_deep(b"<div></div>" * 1000, 1)


def test_small_pages_need_no_worker_and_read_the_same_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.html": PAGE})
    with monkeypatch.context() as patch:
        patch.setattr(html.WORKER, "ask", None)
        alone, _ = read(tmp_path)
    monkeypatch.setattr(html, "SMALL", 0)
    assert read(tmp_path)[0] == alone


@pytest.mark.parametrize(
    "page",
    [
        b"<p>" + b" ".join(b"a%d" % i for i in range(30_000)) + b">",
        b"<div>" * 4_001 + b"<p>" * 4_001,
        b"<p>" + b"".join(b"<b a=%d>" % i for i in range(100)) + b"<p>x" * 6_000,
    ],
)
def test_pages_that_could_run_away_are_left_to_the_worker(page: bytes) -> None:
    assert not html.is_harmless(page)


def test_how_deep_a_page_is_nested_is_found_in_the_worker_where_time_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "too_deep", None)
    documents, _ = read(write(tmp_path, {"a.html": "<b>x</b>" * 20_000}))
    assert list(documents) == ["a.html"]


def test_each_page_of_a_pdf_is_text_and_picture(tmp_path: Path) -> None:
    documents, skipped = read(write(tmp_path, {"m.pdf": pdf(["Hello world", "", "one word " * 10])}))
    first, second, third = (documents[f"m.pdf#page={number}"] for number in (1, 2, 3))
    assert (first.text, first.modality) == ("Hello world", "image+text")
    assert (second.text, second.modality) == (None, "image")
    assert [(d.metadata["page"], d.metadata["pages"], d.metadata["type"]) for d in (first, second)] == [
        (1, 3, "pdf"),
        (2, 3, "pdf"),
    ]
    for page, side in ((first, 1600), (second, 1600), (third, 1024)):  # larger where the picture may be read
        with Image.open(BytesIO(page.image)) as picture:
            assert max(picture.size) == side
    assert isinstance(second.image, bytes)
    with Image.open(BytesIO(second.image)) as picture:
        assert (picture.format, picture.size) == ("JPEG", (1600, 1067))
        red, _, blue = picture.convert("RGB").getpixel((234, 859))  # type: ignore[misc]
        assert blue > 200 > 50 > red
    assert skipped == {}


def test_a_page_that_fails_is_skipped_alone(tmp_path: Path) -> None:
    broken = pdf(["one", "two", "three"]).replace(b"/Kids [4 0 R 6 0 R 8 0 R]", b"/Kids [4 0 R 3 0 R 8 0 R]")
    documents, skipped = read(write(tmp_path, {"m.pdf": broken}))
    assert {"m.pdf#page=1", "m.pdf#page=3"} <= set(documents)
    assert set(skipped) <= {"m.pdf, page 2"}


def test_a_pdf_that_claims_a_million_pages_is_given_up(tmp_path: Path) -> None:
    claims = pdf(["one"]).replace(b"/Count 1 /Kids [4 0 R]", b"/Count 999999 /Kids [4 0 R]")
    documents, skipped = read(write(tmp_path, {"m.pdf": claims}))
    assert len(documents) <= 1
    assert 1 <= len(skipped) <= 21


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pdf(["x"], encrypted=True), "is encrypted"),
        (pdf(["x"])[:80], "is not a PDF, or damaged"),
        (b"not a PDF", "is not a PDF, or damaged"),
        (b"", "is empty"),
    ],
)
def test_a_pdf_that_cannot_be_opened_says_why(data: bytes, why: str, tmp_path: Path) -> None:
    documents, skipped = read(write(tmp_path, {"m.pdf": data, "n.pdf": pdf(["good"])}))
    assert list(documents) == ["n.pdf#page=1"]
    assert skipped["m.pdf"].startswith(why)


def test_pdfs_may_be_read_from_many_threads(tmp_path: Path) -> None:
    folders = [write(tmp_path / str(i), {"m.pdf": pdf([f"page {j}" for j in range(4)])}) for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for documents, skipped in pool.map(read, folders):
            assert [document.text for document in documents.values()] == [f"page {j}" for j in range(4)]
            assert skipped == {}


def test_a_pdf_may_be_left_half_read(tmp_path: Path) -> None:
    from isthmus.sources.files import File
    from isthmus.sources.pdf import read as pages

    write(tmp_path, {"m.pdf": pdf(["one", "two"])})
    for _ in range(3):
        assert next(iter(pages(File.at(str(tmp_path / "m.pdf"), "m.pdf"))))


@pytest.mark.parametrize("name", ["photo.txt", "photo.jpg.txt", "photo.caption", "photo.TXT"])
def test_a_text_beside_a_picture_is_its_text(name: str, tmp_path: Path) -> None:
    documents, skipped = read(write(tmp_path, {"photo.jpg": PNG, name: "a cat\n"}))
    assert list(documents) == ["photo.jpg"]
    assert (documents["photo.jpg"].text, documents["photo.jpg"].modality) == ("a cat", "image+text")
    assert skipped == {}


@pytest.mark.parametrize("field", ["caption", "text", "title", "description", "alt"])
@pytest.mark.parametrize("name", ["photo.json", "photo.jpg.json"])
def test_an_object_beside_a_picture_is_its_text_and_metadata(name: str, field: str, tmp_path: Path) -> None:
    said = f'{{"{field}": "a cat", "alt2": 1, "tags": ["x", 2], "deep": {{"a": 1}}, "none": null, "nan": NaN}}'
    documents, _ = read(write(tmp_path, {"photo.jpg": PNG, name: said}))
    assert list(documents) == ["photo.jpg"]
    metadata = documents["photo.jpg"].metadata
    assert documents["photo.jpg"].text == "a cat"
    assert (metadata["alt2"], metadata["tags"], metadata["type"]) == (1, ["x", 2], "jpg")
    assert not {field, "deep", "none", "nan"} & set(metadata)


def test_a_text_comes_before_an_object_and_two_pictures_share_both(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a.jpg": PNG, "a.png": PNG, "a.txt": "words", "b.txt": "alone"}
    files["a.json"] = '{"caption": "other", "width": 3}'
    documents, _ = read(write(tmp_path, files))
    assert list(documents) == ["a.jpg", "a.png", "b.txt"]
    assert [(documents[d].text, documents[d].metadata["width"]) for d in ("a.jpg", "a.png")] == [("words", 3)] * 2


@pytest.mark.parametrize("damage", [b"\xff\xff", b"", b"[1]", b"{", b'{"caption": "\\ud800"}'])
def test_a_damaged_sidecar_is_skipped_and_its_picture_kept(damage: bytes, tmp_path: Path) -> None:
    documents, skipped = read(write(tmp_path, {"a.jpg": PNG, "a.json": damage}))
    assert documents["a.jpg"].modality == "image"
    assert set(skipped) == {"a.json"}


def test_an_object_far_from_a_picture_is_a_row(tmp_path: Path) -> None:
    documents, _ = read(write(tmp_path, {"x/a.jpg": PNG, "a.json": '{"id": "k", "text": "row"}'}))
    assert set(documents) == {"x/a.jpg", "a.json#k"}
