"""The files of the page: all English in one file, text shown as text, nothing from elsewhere, few bytes."""

from __future__ import annotations

import gzip
import re
import shutil
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import browser
import needed
from isthmus.serve.app import PAGE
from isthmus.serve.page_files import FOR_GOOD, PageFiles
from serving import client_of

MODULES = sorted(PAGE.glob("*.js"))
OTHERS = [file for file in MODULES if file.name != "words.js"]
HTML = (PAGE / "index.html").read_text("utf-8")
WORDS = (PAGE / "words.js").read_text("utf-8")
FIRST_PAINT = 8_000  # bytes, as they are sent
WHOLE = (26, 56_000)  # the same, of all files of the page


def code(file: Path) -> str:
    """Return a module without its comments."""
    return re.sub(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", "", file.read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.name)
def test_a_module_never_writes_html_or_runs_text(file: Path) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc|localStorage"
    )
    assert not re.search(forbidden, code(file))


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.name)
def test_a_module_names_no_other_host(file: Path) -> None:
    addresses = set(re.findall(r"https?://[^\s\"'`]+", code(file))) - {"http://www.w3.org/2000/svg"}
    assert not addresses


@pytest.mark.parametrize("file", OTHERS, ids=lambda file: file.name)
def test_english_stands_in_words_js_alone(file: Path) -> None:
    strings = re.findall(r"\"([^\"\n]*)\"", code(file))
    sentences = [text for text in strings if re.match(r"[A-Z][a-z]+ [a-z]", text) and "scale(" not in text]
    assert not sentences


def test_the_html_has_no_words_but_the_name_and_the_note_for_browsers_without_scripts() -> None:
    body = re.sub(r"<noscript>.*?</noscript>|<title>.*?</title>", "", HTML, flags=re.DOTALL)
    assert re.sub(r"<[^>]*>", " ", body).split() == ["isthmus", "/"]


def test_every_word_of_the_html_exists() -> None:
    named = set(re.findall(r"data-(?:word|label|placeholder)=\"(\w+)\"", HTML))
    known = set(re.findall(r"^  (\w+)[:,(]", WORDS, flags=re.MULTILINE))
    assert named <= known


def test_every_word_that_a_module_uses_exists_and_every_word_is_used() -> None:
    known = set(re.findall(r"^  (\w+)[:,(]", WORDS, flags=re.MULTILINE))
    text = "\n".join(map(code, OTHERS))
    used = set(re.findall(r"\bwords\.(\w+)", text)) - {"js"}
    assert used <= known
    named = set(re.findall(r"data-(?:word|label|placeholder)=\"(\w+)\"", HTML))
    within = set(re.findall(r"\bwords\.(\w+)", WORDS))
    assert known <= used | named | within


def test_every_module_is_loaded_without_waiting_for_another() -> None:
    loaded = set(re.findall(r"(?:modulepreload\" href|script type=\"module\" src)=\"([\w.]+)\"", HTML))
    assert loaded == {file.name for file in MODULES}


def test_every_icon_that_is_used_is_in_the_sheet() -> None:
    text = HTML + "\n".join(map(code, OTHERS))
    used = set(re.findall(r"#i-(\w+)", HTML)) | set(re.findall(r"\bicon\(\"(\w+)\"\)", text))
    assert used <= set(re.findall(r"symbol id=\"i-(\w+)\"", HTML))


def test_a_module_is_one_idea() -> None:
    assert not [file.name for file in MODULES if len(file.read_text("utf-8").splitlines()) > 300]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(tmp_path_factory.mktemp("page")) as client:
        yield client


def sent(client: TestClient, place: str) -> int:
    """Return how many bytes of a file are sent."""
    with client.stream("GET", place) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        return len(b"".join(answer.iter_raw()))


def named(html: str) -> list[str]:
    """Return the addresses of files that a document loads."""
    return list(dict.fromkeys(re.findall(r"\b(?:href|src)=\"(?!#|openapi)([^\"]+)\"", html)))


def test_the_first_paint_takes_one_request_and_few_bytes(client: TestClient) -> None:
    head, _, body = client.get("/").text.partition("</head>")
    assert "<style>" in head
    assert not re.search(r"rel=\"stylesheet\"|<script(?! type=\"module\")", head)  # what a paint would wait for
    painted = body[: body.index('<link rel="stylesheet"')]
    assert "</main>" in painted
    assert "<script" not in painted
    assert sent(client, "/") <= FIRST_PAINT


def test_all_files_of_the_page_take_few_requests_and_bytes(client: TestClient) -> None:
    places = ["/", *named(client.get("/").text)]
    assert len(places) <= WHOLE[0]
    assert sum(sent(client, place) for place in places) <= WHOLE[1]


def test_files_have_addresses_that_name_their_content_and_are_kept_for_good(client: TestClient, tmp_path: Path) -> None:
    places = named(client.get("/").text)
    assert {Path(place).name for place in places} == {file.name for file in PAGE.iterdir()} - {
        "index.html",
        "style.css",
    }
    for place in places:
        answer = client.get(place)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == FOR_GOOD
    assert client.get("/").headers["cache-control"] == "no-cache"
    copy = shutil.copytree(PAGE, tmp_path / "page")
    assert PageFiles(copy).version == PageFiles(PAGE).version == Path(places[0]).parent.name
    (copy / "words.js").write_text(f"{WORDS}// changed", "utf-8")
    assert PageFiles(copy).version != PageFiles(PAGE).version
    assert client.get(f"/{PageFiles(copy).version}/words.js").status_code == 404


def test_a_file_that_the_browser_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/")
    again = client.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    other = client.get("/", headers={"If-None-Match": 'W/"other"'})
    assert other.status_code == 200


def test_a_client_without_gzip_gets_the_same_bytes_plain(client: TestClient) -> None:
    packed = client.get("/words.js")
    plain = client.get("/words.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == packed.content == (PAGE / "words.js").read_bytes()
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert len(gzip.compress(plain.content)) < len(plain.content) / 2


def test_the_policy_allows_the_one_style_inside_the_document(client: TestClient) -> None:
    answer = client.get("/")
    [style] = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert style == (PAGE / "style.css").read_text("utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"style-src 'self' 'sha256-{digest}';" in answer.headers["content-security-policy"]
    assert "sha256" not in client.get("/views.css").headers["content-security-policy"]


def test_a_missing_browser_skips_a_test_and_fails_it_where_everything_has_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(browser, "missing", lambda: "chromium is not installed")
    monkeypatch.delenv(needed.EVERYTHING, raising=False)
    with pytest.raises(pytest.skip.Exception, match="chromium"):
        browser.need_browser()
    monkeypatch.setenv(needed.EVERYTHING, "1")
    with pytest.raises(pytest.fail.Exception, match="chromium"), browser.chromium():
        pass
