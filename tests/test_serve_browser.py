"""The page in a real browser, against a real server: every path that a person takes. ``make test-all`` runs these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import chromium, drop, few_samples, ids, tab, transfer
from isthmus import Collection, Document, samples
from isthmus.serve.keys import create_key
from serving import address_of, fill, png
from stock import pixels
from test_serve_process import started

pytestmark = pytest.mark.install

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload, Page, Route

HOSTILE = "<img src=x onerror=\"document.title='run'\"> a red cat <script>document.title='run'</script>"
COUNT = 33  # documents of the collection
Opened = tuple["Page", list[str]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    root = tmp_path_factory.mktemp("page")
    fill(root, tiny)
    fill(root, tiny, name="others", count=4)
    with Collection.open(root / "things.isthmus", follow=False) as things:
        long = "a dog runs on the grass. " * 6 + "the red cat sits on a sofa. " + "a house and a tree. " * 9
        page = Document("scan.pdf#page=2", "a tree", pixels(5), {"page": 2, "pages": 3})
        things.add([Document(HOSTILE, HOSTILE), Document("long", long, metadata={"lang": "en"}), page])
    return root


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with started(root) as server:
        yield f"http://127.0.0.1:{server.port}/#c=things"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser, address: str) -> Iterator[Opened]:
    with tab(browser, address) as (page, complaints):
        page.wait_for_selector("#grid li[data-id]")
        yield page, complaints
        assert not complaints


def search(page: Page, words: str) -> None:
    page.fill("#words", words)
    page.keyboard.press("Enter")
    page.wait_for_selector("#grid .match")


def test_the_start_page_shows_some_of_every_kind(opened: Opened) -> None:
    page, _ = opened
    assert page.inner_text("#count") == f"{COUNT} documents in things"
    shown = page.eval_on_selector_all("#grid .why", "all => all.map((one) => one.textContent)")
    assert {"Text", "Picture", "Picture with text", "Page 2 of 3"} <= set(shown)


def test_words_are_searched_and_the_number_of_hits_is_announced(opened: Opened) -> None:
    page, _ = opened
    search(page, "a red cat")
    assert page.inner_text("#live") == "The first 30 hits"
    page.locator("#more").scroll_into_view_if_needed()  # the next page comes by itself
    page.wait_for_function(f"() => document.querySelectorAll('#grid li').length === {COUNT}")
    page.wait_for_selector("#more", state="hidden")
    assert page.inner_text("#count") == f"{COUNT} hits"
    assert len(set(ids(page))) == COUNT


def test_typing_is_enough(opened: Opened) -> None:
    page, _ = opened
    page.fill("#words", "dog")
    page.wait_for_selector("#grid .match")
    assert "q=dog" in page.url


@pytest.mark.parametrize("way", ["paste", "drop", "choose"])
def test_a_picture_is_searched_alone_and_with_words(opened: Opened, way: str) -> None:
    page, _ = opened
    picture = ("cat.png", "image/png", png(4))
    if way == "paste":
        transfer(page, "paste", [picture])
    elif way == "drop":
        transfer(page, "drop", [picture], on="#box")
    else:
        page.set_input_files("#picture", {"name": "cat.png", "mimeType": "image/png", "buffer": png(4)})
    page.wait_for_selector("#grid .match")
    assert ids(page)[0] == "d0-4"
    assert page.locator("#token img").count() == 1
    alone = ids(page)
    page.fill("#words", "dog on the grass")
    page.wait_for_function(
        "first => document.querySelector('#grid').textContent !== first", arg=page.text_content("#grid")
    )
    assert ids(page) != alone


def test_the_urls_of_pasted_pictures_are_freed(opened: Opened) -> None:
    page, _ = opened
    transfer(page, "paste", [("one.png", "image/png", png(4))])
    page.wait_for_selector("#token img")
    transfer(page, "paste", [("two.png", "image/png", png(7))])
    page.wait_for_function("() => window.urls.size === 1 && document.querySelector('#grid li')?.dataset.id === 'd0-7'")
    page.click("#token button")
    page.wait_for_selector("#token", state="hidden")
    assert page.evaluate("window.urls.size") == 0
    page.wait_for_selector("#grid .match", state="detached")
    assert page.inner_text("#count") == f"{COUNT} documents in things"


def test_what_is_no_picture_is_refused_with_a_reason(opened: Opened) -> None:
    page, _ = opened
    page.set_input_files("#picture", {"name": "a.png", "mimeType": "image/png", "buffer": b"no picture"})
    page.wait_for_selector("#toast:not([hidden])")
    assert "not a picture" in page.inner_text("#toast")


def test_the_ranking_switches_without_another_request_and_says_what_moved(opened: Opened) -> None:
    page, _ = opened
    search(page, "a red cat")
    fair, asked = ids(page), list[str]()
    page.on("request", lambda request: asked.append(request.url) if "/search" in request.url else None)
    page.check("#ranking [value=raw]")
    raw = ids(page)
    assert raw != fair
    assert re.search(r"30 hits by raw cosine\. \d+ of 30 moved\.", page.inner_text("#live"))
    page.check("#ranking [value=calibrated]")
    assert ids(page) == fair
    assert not asked


def test_cards_glide_unless_less_motion_is_wanted(browser: Browser, address: str) -> None:
    running = "document.getAnimations().filter((one) => one.effect.target.closest('#grid')).length"
    moving = []
    for motion in ("reduce", "no-preference"):
        with tab(browser, address, reduced_motion=motion) as (page, _):
            search(page, "a red cat")
            page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished.catch(() => null)))")
            page.check("#ranking [value=raw]")
            moving.append(page.evaluate(running))
    assert moving[0] == 0 < moving[1]


def test_documents_are_filtered_by_kind_and_metadata(opened: Opened) -> None:
    page, _ = opened
    page.get_by_role("button", name="Pictures", exact=True).click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('#grid .why')].every((one) => one.textContent === 'Picture')"
    )
    assert len(ids(page)) == 10
    page.get_by_role("button", name="Everything").click()
    page.get_by_role("button", name="Filter").click()
    page.get_by_text("Another condition").click()
    page.select_option("#filter-field", "number")
    page.select_option("#filter-condition", "gte")
    page.fill("#filter-value", "27")
    page.get_by_role("button", name="Add filter").click()
    page.wait_for_function("() => document.querySelectorAll('#grid li[data-id]').length === 3")
    assert ids(page) == ["d0-27", "d0-28", "d0-29"]
    search(page, "cat")
    assert sorted(ids(page)) == ["d0-27", "d0-28", "d0-29"]
    page.get_by_role("button", name="Remove the filter number is at least 27").click()
    page.wait_for_function("() => document.querySelectorAll('#grid li[data-id]').length >= 30")


def test_filters_show_the_values_with_their_counts_and_work_while_they_are_open(opened: Opened) -> None:
    page, _ = opened
    page.get_by_role("button", name="Filter").click()
    yes = page.get_by_role("button", name="true 15 documents")
    yes.click()
    page.wait_for_function(
        "() => document.querySelector('#filter-count').textContent === '15 documents pass the filters'"
    )
    assert yes.get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="false 15 documents").click()  # values of one field are alternatives
    page.wait_for_function("() => document.querySelector('#filter-count').textContent.startsWith('30')")
    yes.click()
    page.get_by_label("number, from").fill("20")
    page.get_by_label("number, to").fill("24")
    page.keyboard.press("Tab")
    page.wait_for_function("() => document.querySelectorAll('#grid li[data-id]').length === 3")
    page.get_by_role("button", name="Done").click()
    assert ids(page) == ["d0-20", "d0-22", "d0-24"]
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("button", name="Clear filters").click()
    page.wait_for_function(f"() => document.querySelector('#count').textContent === '{COUNT} documents in things'")


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Some samples, with the encoder that has maps; and a recording and a video."""
    root = tmp_path_factory.mktemp("explained")
    few_samples(root)
    with address_of(root) as address:
        yield address


def test_a_map_lies_over_the_picture_and_weighs_the_words(browser: Browser, explained: str) -> None:
    with tab(browser, explained) as (page, complaints):
        search(page, "snowy mountains and a lake")
        page.click("#grid li[data-id='lake+words'] a")
        control = page.get_by_role("switch", name="Show what matched")
        assert control.get_attribute("aria-checked") == "false"
        control.focus()
        page.keyboard.press("Space")
        page.wait_for_selector("#document canvas.heat")
        assert control.get_attribute("aria-checked") == "true"
        heat, shown = (page.locator(one).bounding_box() for one in ("#document canvas.heat", "#document .large"))
        assert heat == shown
        colours = "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
        assert page.eval_on_selector("#document canvas.heat", colours) > 50
        assert page.locator(".text .weighted.for").count() > 0
        assert page.text_content(".text") == "Snow above a lake."
        said = page.inner_text("#map")
        assert "What counts most is" in said
        assert not re.search(r"[+−]\d", said)  # numbers stand under the details
        page.click("#map summary")
        assert re.search(r"strongest patch\s+\+0\.\d{4}", page.inner_text("#map"))
        assert page.text_content("#map .asked") == "snowy mountains and a lake"
        coloured = set(page.locator("#map .weighted").all_inner_texts())
        assert coloured and not coloured & {"and", "a"}  # which say nothing about a picture
        page.keyboard.press("m")
        page.wait_for_selector("#document canvas.heat", state="detached")
        assert page.locator(".text .weighted").count() == 0
        page.keyboard.press("m")
        page.keyboard.press("ArrowRight")  # the next hit has its map at once
        page.wait_for_selector("#document canvas.heat, #document .weighted")
        assert not complaints


def test_an_encoder_without_maps_has_no_switch(opened: Opened) -> None:
    page, _ = opened
    search(page, "a red cat")
    with page.expect_response("**/maps"):
        page.click("#grid li[data-id=d0-2] a")
    page.wait_for_selector("#neighbours li")
    assert page.get_by_role("switch").count() == 0


def test_a_document_that_was_not_searched_for_has_no_map(browser: Browser, explained: str) -> None:
    with tab(browser, explained) as (page, _):
        page.click("#grid li[data-id='photos/lake.jpg'] a")
        page.wait_for_selector("#neighbours li")
        assert page.get_by_role("switch").count() == 0


def test_a_sound_begins_at_the_moment_that_matches(browser: Browser, explained: str) -> None:
    with tab(browser, explained) as (page, complaints):
        search(page, "a siren")
        said = page.inner_text("#grid li[data-id='street.wav'] .why")
        found = re.search(r"0:(\d\d)–0:(\d\d)", said)
        assert found, said
        start = int(found[1])
        assert 25 <= start <= 40
        page.click("#grid li[data-id='street.wav'] .play")
        page.wait_for_function(f"() => document.querySelector('#grid audio')?.currentTime >= {start}")
        page.click("#grid li[data-id='street.wav'] a .name")
        page.wait_for_function(f"() => document.querySelector('#document audio')?.currentTime === {start}")
        page.get_by_role("button", name=f"Best match at {found[0]}").click()
        page.wait_for_function(f"() => document.querySelector('#document audio').currentTime > {start}")
        assert page.evaluate("document.querySelector('#grid audio').paused")  # one sound at a time
        assert not complaints


def test_a_video_is_shown_once_though_its_sound_is_a_part_of_its_own(browser: Browser, explained: str) -> None:
    with tab(browser, f"{explained}/#q=green&doc=film.mp4") as (page, complaints):
        page.wait_for_function("() => document.querySelector('#document video')?.readyState > 0")
        page.wait_for_function("() => document.querySelector('#document audio').closest('.played').hidden")
        assert page.evaluate("document.querySelector('#document video').duration") > 7
        page.get_by_text("This collection cannot be searched by documents of this kind.").wait_for()
        assert page.locator("#like").is_hidden()
        assert not [one for one in complaints if "400" not in one]


def test_the_card_of_a_video_shows_its_picture_not_its_sound(browser: Browser, explained: str) -> None:
    with tab(browser, explained) as (page, complaints):
        page.wait_for_selector("#grid li[data-id='film.mp4'] video.frame")
        assert page.locator("#grid li[data-id='street.wav'] video").count() == 0
        assert not complaints


def test_of_a_very_long_text_the_passage_is_shown_first(browser: Browser, tmp_path: Path, tiny: str) -> None:
    long = "# Ferries\n\n" + "a house and a tree. " * 4000 + "the red cat sits on a sofa. " + "a dog runs. " * 4000
    with Collection.open(tmp_path / "long.isthmus", tiny, "none", follow=False) as things:
        things.add([Document("long", long), Document("other", "a dog")])
    with (
        address_of(tmp_path) as address,
        tab(browser, f"{address}/#q=the+red+cat+sits+on+a+sofa&doc=long") as (page, _),
    ):
        page.wait_for_selector(".passage")
        assert len(page.inner_text(".text")) < 9000
        page.get_by_role("button", name="Show the whole text").click()
        assert len(page.inner_text(".text")) > 100_000
        assert page.inner_text(".text b") == "Ferries"


def test_a_document_opens_with_its_reasons_and_neighbours(opened: Opened) -> None:
    page, _ = opened
    search(page, "the red cat sits on a sofa")
    page.click("#grid li[data-id=long] a")
    page.wait_for_selector("#neighbours li")
    assert page.inner_text("#document-name") == "long"
    reasons = page.inner_text(".why-list")
    assert re.search(r"^\d+(st|nd|rd|th) of the hits", reasons, re.MULTILINE)
    assert not re.search(r"\d\.\d", reasons)
    assert "similarity (cosine)" not in page.inner_text(".side")
    page.click(".numbers summary")
    assert re.search(r"similarity \(cosine\)\s+\d\.\d{3}", page.inner_text(".side"))
    asked = {"query": "the red cat sits on a sofa", "k": 40}
    hits = page.request.post(f"{page.url.split('#')[0]}v1/collections/things/search", data=asked).json()["hits"]
    passage = next(hit["passage"]["text"] for hit in hits if hit["id"] == "long")
    assert page.text_content(".passage") == passage
    first = page.inner_text("#neighbours li a")
    page.click("#neighbours li a")
    page.wait_for_function(
        "name => document.querySelector('#document-name').textContent === name", arg=first.split(",")[0].strip()
    )
    page.go_back()
    page.wait_for_function("() => document.querySelector('#document-name').textContent === 'long'")
    page.keyboard.press("Escape")
    page.wait_for_selector("#document", state="hidden")
    assert page.evaluate("document.activeElement.closest('li')?.dataset.id") == "long"


def test_more_like_this_searches_by_the_document(opened: Opened) -> None:
    page, _ = opened
    page.click("#grid li[data-id=d0-1] a")
    page.get_by_role("button", name="More like this").click()
    page.wait_for_selector("#grid .match")
    assert page.inner_text("#token") == "Like d0-1"
    assert "d0-1" not in ids(page)
    page.get_by_role("button", name="Stop searching by this document").click()
    page.wait_for_selector("#grid .match", state="detached")


def test_the_text_of_a_document_is_shown_as_text(opened: Opened) -> None:
    page, _ = opened
    search(page, "red cat")
    assert page.locator("#grid li img[src='x']").count() == 0
    page.evaluate("id => { location.hash = `c=things&doc=${encodeURIComponent(id)}` }", HOSTILE)
    page.wait_for_selector("#neighbours li")
    assert HOSTILE in page.inner_text(".text")
    assert page.title() == "things · isthmus"


def test_files_are_added_by_drop_and_can_be_found(browser: Browser, root: Path, tmp_path: Path, tiny: str) -> None:
    fill(tmp_path, tiny, count=3)
    files = [
        ("note.txt", "text/plain", b"a red sofa"),
        ("photo.png", "image/png", png(77)),
        ("broken.png", "image/png", b"\x89PNG\r\n\x1a\nnothing"),
    ]
    with address_of(tmp_path) as address, tab(browser, address) as (page, complaints):
        page.wait_for_selector("#grid li[data-id]")
        transfer(page, "dragover", files)
        assert page.inner_text("#drop-add") == "Add to things"
        assert page.locator("#drop-search").is_hidden()  # three files are no query
        transfer(page, "drop", files, on="#drop-add")
        page.wait_for_function("() => document.querySelector('#toast').textContent.includes('added')")
        said = page.inner_text("#toast")
        assert "2 added, 1 skipped." in said
        assert "broken.png" in said
        page.wait_for_function("() => document.querySelector('#count').textContent === '5 documents in things'")
        transfer(page, "paste", [("again.png", "image/png", png(77))])
        page.wait_for_selector("#grid .match")
        assert ids(page)[0] == "photo.png"
        assert not complaints


def test_a_dropped_folder_is_added_with_its_folders_but_not_what_is_hidden(
    browser: Browser, tmp_path: Path, tiny: str
) -> None:
    fill(tmp_path, tiny, count=3)
    folder = tmp_path / "holiday"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "note.txt").write_text("a red sofa", "utf-8")
    (folder / "inner" / "deep" / "photo.png").write_bytes(png(77))
    (folder / "inner" / "photo.png").write_bytes(png(78))
    (folder / "inner" / "photo.txt").write_text("a dog", "utf-8")  # beside one picture, not the other
    (folder / ".hidden.txt").write_text("a secret", "utf-8")
    with address_of(tmp_path) as address, tab(browser, address) as (page, complaints):
        page.wait_for_selector("#grid li[data-id]")
        drop(page, [folder, root_file(tmp_path)])
        page.wait_for_function("() => document.querySelector('#toast').textContent.includes('added')")
        assert page.inner_text("#toast") == "4 added."
        page.wait_for_function("() => document.querySelector('#count').textContent === '7 documents in things'")
        inner = "holiday/inner/photo.png"
        names = {"holiday/note.txt", inner, "holiday/inner/deep/photo.png", "alone.txt"}
        assert names <= set(ids(page))
        assert page.inner_text(f"#grid li[data-id='{inner}'] .name") == "a dog"
        assert not complaints


def test_files_go_to_the_collection_that_they_were_dropped_on_whatever_is_chosen_meanwhile(
    browser: Browser, tmp_path: Path, tiny: str
) -> None:
    for name in ("first", "second"):
        fill(tmp_path, tiny, name, count=2)
    files = [(f"{number}.txt", "text/plain", f"a red sofa {number}".encode()) for number in range(30)]
    uploaded: list[str] = []
    with address_of(tmp_path) as address, tab(browser, f"{address}/#c=first") as (page, complaints):
        page.wait_for_selector("#grid li[data-id]")

        def choose(route: Route) -> None:
            uploaded.append(route.request.url)
            if len(uploaded) == 1:
                page.select_option("#collection", "second")
            route.continue_()

        page.route("**/documents", choose)
        transfer(page, "drop", files)
        page.wait_for_function("() => document.querySelector('#toast').textContent.startsWith('30 added')")
        assert [one.split("/")[-2] for one in uploaded] == ["first"] * 3
        assert page.inner_text("#count") == "2 documents in second"
        assert not complaints


def test_an_upload_that_ends_in_an_error_says_what_was_added_before(
    browser: Browser, tmp_path: Path, tiny: str
) -> None:
    fill(tmp_path, tiny, count=3)
    files = [(f"{number}.txt", "text/plain", f"a red sofa {number}".encode()) for number in range(20)]
    with address_of(tmp_path) as address, tab(browser, address) as (page, _):
        page.wait_for_selector("#grid li[data-id]")
        page.route("**/documents", lambda route: route.continue_() if not sent else route.abort())
        sent: list[str] = []
        page.on("requestfinished", lambda asked: sent.append(asked.url) if asked.method == "POST" else None)
        transfer(page, "drop", files)
        page.wait_for_selector("#toast .bad")
        assert "Before that: 12 added." in page.inner_text("#toast")
        page.get_by_role("button", name="Close").click()
        assert page.locator("#toast").is_hidden()


def root_file(folder: Path) -> Path:
    file = folder / "alone.txt"
    file.write_text("a dog on the grass", "utf-8")
    return file


def test_a_dragged_picture_can_be_searched_by_or_added(opened: Opened) -> None:
    page, _ = opened
    picture = [("cat.png", "image/png", png(4))]
    transfer(page, "dragover", picture)
    assert page.inner_text("#drop-search") == "Search by this picture"
    transfer(page, "drop", picture, on="#drop-search")
    page.wait_for_selector("#grid .match")
    assert page.locator("#drop").is_hidden()
    assert ids(page)[0] == "d0-4"


def test_the_health_of_a_collection_is_examined_and_shown(opened: Opened) -> None:
    page, complaints = opened
    page.click("#health")
    page.get_by_role("button", name="Examine").click()
    page.wait_for_selector(".verdict", timeout=60_000)
    shown = page.inner_text("#state")
    for title in ("Health of things", "What to do", "Gap", "Shares of the first ten", "Hubs", "Drift", "Examined"):
        assert title in shown
    assert "`" not in str(page.text_content("#state"))
    assert "isthmus diagnose" not in shown  # commands are for whoever runs the collection
    page.get_by_text("For whoever runs this collection").click()
    assert "isthmus diagnose" in page.inner_text("#state code")
    page.keyboard.press("Escape")
    page.wait_for_selector("#state", state="hidden")
    missing = [one for one in complaints if "404" in one]  # there was no diagnosis yet, which the browser logs
    complaints[:] = [one for one in complaints if one not in missing]


def test_the_keyboard_is_enough(opened: Opened) -> None:
    page, _ = opened

    def focused() -> str:
        return str(page.evaluate("document.activeElement.closest('li')?.dataset.id ?? document.activeElement.id"))

    page.keyboard.press("/")
    assert focused() == "words"
    page.keyboard.type("a red cat")
    page.keyboard.press("Enter")
    page.wait_for_selector("#grid .match")
    page.keyboard.press("ArrowDown")
    order = ids(page)
    columns = page.evaluate("getComputedStyle(document.querySelector('#best')).gridTemplateColumns.split(' ').length")
    assert focused() == order[0]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert focused() == order[1 + columns]
    page.keyboard.press("Enter")
    page.wait_for_selector("#document[open]")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.activeElement.id === 'document-name'")
    page.keyboard.press("Escape")
    page.wait_for_selector("#document", state="hidden")
    assert focused() == order[2 + columns]
    page.keyboard.press("Escape")
    assert focused() == "words"


def test_another_collection_is_chosen(opened: Opened) -> None:
    page, _ = opened
    page.select_option("#collection", "others")
    page.wait_for_function("() => document.querySelector('#count').textContent === '4 documents in others'")
    page.reload()
    page.wait_for_function("() => document.querySelector('#count').textContent === '4 documents in others'")


def test_a_likely_match_and_none_are_told_apart(browser: Browser, tmp_path: Path) -> None:
    kept = ("photos/macaw.jpg", "photos/tabby.jpg", "photos/bee.jpg", "notes/parrots.md", "notes/espresso.md")
    with Collection.open(tmp_path / "few.isthmus", follow=False) as few:
        for name in kept:
            file = samples.folder() / name
            few.add([Document(name, image=file) if file.suffix == ".jpg" else Document(name, file.read_text("utf-8"))])
        few.search("a cat")
    with address_of(tmp_path) as address, tab(browser, address) as (page, complaints):
        search(page, "a red parrot on a branch")
        assert ids(page)[0] == "photos/macaw.jpg"
        assert re.fullmatch(r"(1 likely match|2 likely matches)(, \d possible)?", page.inner_text("#count"))
        assert re.match(r">?\d+%", page.inner_text("#grid .match"))
        search(page, "quarterly tax declaration form")
        page.wait_for_function(
            "() => /No likely match|Nothing matches/.test(document.querySelector('#count').textContent)"
        )
        assert not complaints


def test_hits_that_are_less_likely_stand_apart_and_the_arrows_cross_over(browser: Browser, explained: str) -> None:
    shares = "all => all.map((one) => parseFloat(one.textContent.replace(/[<>]/, '')))"
    with tab(browser, explained) as (page, complaints):
        search(page, "a siren")
        first, others = (page.eval_on_selector_all(f"#{part} .match", shares) for part in ("best", "rest"))
        assert min(first) >= 10 > max(others)
        assert page.is_visible("#apart")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        below = "document.activeElement.closest('#rest li') !== null"
        assert page.evaluate(below)
        page.keyboard.press("ArrowUp")
        assert not page.evaluate(below)
        page.check("#ranking [value=raw]")  # where no probability tells them apart
        assert page.is_hidden("#apart")
        assert page.locator("#rest li").count() == 0
        assert not complaints


def test_a_card_is_called_by_its_title_and_names_the_file_below(browser: Browser, explained: str) -> None:
    with tab(browser, explained) as (page, _):
        page.wait_for_selector("#grid li[data-id]")

        def shown(document: str) -> list[str]:
            return list(page.locator(f"#grid li[data-id='{document}'] :is(.name, .what)").all_inner_texts())

        assert shown("notes/glaciers.md") == ["Rivers of ice", "glaciers.md"]
        assert shown("lake+words") == ["Snow above a lake.", "lake+words"]
        assert shown("photos/bee.jpg") == ["bee.jpg", "Picture"]


def test_what_is_known_about_a_document_is_said_once_and_as_people_write_it(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "ferries.md").write_text("# Ferries\n\n" + "They cross the fjord. " * 60, "utf-8")
    with Collection.open(tmp_path / "files.isthmus", follow=False) as things:
        things.index(tmp_path / "files")
    with address_of(tmp_path) as address, tab(browser, f"{address}/#doc=ferries.md") as (page, _):
        page.wait_for_selector("#neighbours p, #neighbours li")
        assert page.inner_text("#document-name") == "Ferries"
        known = page.inner_text(".side dl").split("\n")
        assert known.count("ferries.md") == 1
        assert "1.3 kB" in known
        assert re.search(r"\d\d:\d\d$", page.inner_text(".side dl"))
        assert "T" not in known[-1]


def test_a_server_with_keys_asks_for_one_and_shows_pictures(browser: Browser, root: Path, tmp_path: Path) -> None:
    _, token = create_key(tmp_path / "keys.json", "reader", "read", ())
    with address_of(root, keys=tmp_path / "keys.json") as address, tab(browser, f"{address}/#c=things") as (page, _):
        page.fill("#key-value", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#key .bad")
        page.fill("#key-value", token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#grid img.loaded")
        assert page.evaluate("sessionStorage.length") == 1
        assert page.evaluate("localStorage.length") == 0
        page.wait_for_function("() => window.urls.size === 0")  # each is freed when its picture is drawn
        page.reload()
        page.wait_for_selector("#grid img.loaded")
        transfer(page, "drop", [("note.txt", "text/plain", b"a red sofa")])
        page.wait_for_selector("#toast .bad")  # a key that may read may not write


def test_a_server_that_is_gone_is_said(browser: Browser, root: Path) -> None:
    with address_of(root) as address, tab(browser, f"{address}/#c=things") as (page, _):
        page.wait_for_selector("#grid li[data-id]")
        page.route("**/v1/**", lambda route: route.abort())
        page.fill("#words", "cat")
        page.wait_for_selector("#notice:not([hidden])")
        assert "does not answer" in page.inner_text("#notice")
        page.unroute("**/v1/**")
        page.get_by_role("button", name="Try again").click()
        page.wait_for_selector("#grid .match")
        assert page.locator("#notice").is_hidden()


def test_an_empty_collection_says_how_to_fill_it_and_no_hits_how_to_go_on(
    browser: Browser, tmp_path: Path, tiny: str
) -> None:
    with Collection.open(tmp_path / "empty.isthmus", tiny, "center", follow=False):
        pass
    with address_of(tmp_path) as address, tab(browser, address) as (page, complaints):
        page.wait_for_selector("#nothing:not([hidden])")
        assert "This collection is empty." in page.inner_text("#nothing")
        assert page.get_by_role("button", name="Filter", exact=True).count() == 0
        with page.expect_file_chooser() as chosen:
            page.click("#nothing-add")
        files = [("a.txt", b"a red cat"), ("b.txt", b"a dog"), ("c.exe", b"MZ")]
        sent: list[FilePayload] = [{"name": n, "mimeType": "text/plain", "buffer": data} for n, data in files]
        chosen.value.set_files(sent)
        page.wait_for_selector("#grid li[data-id='a.txt']")
        assert "c.exe" in page.inner_text("#toast")
        page.get_by_role("button", name="Close").click()
        assert page.locator("#toast").is_hidden()
        page.evaluate("location.hash = 'c=empty&where=' + encodeURIComponent(JSON.stringify([['type', 'is', 'none']]))")
        page.wait_for_selector("#nothing-clear:not([hidden])")
        assert "Nothing passes the filters." in page.inner_text("#nothing")
        page.click("#nothing-clear")
        page.wait_for_selector("#grid li[data-id='b.txt']")
        assert page.locator("#nothing").is_hidden()
        assert not complaints


def test_hits_come_while_one_scrolls_until_there_are_no_more(browser: Browser, tmp_path: Path, tiny: str) -> None:
    fill(tmp_path, tiny, count=300)
    with address_of(tmp_path) as address, tab(browser, f"{address}/#q=cat") as (page, complaints):
        page.wait_for_selector("#grid .match")
        while (count := len(ids(page))) < 300:
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            page.wait_for_function("n => document.querySelectorAll('#grid li').length > n", arg=count)
        assert len(set(ids(page))) == 300
        page.wait_for_selector("#more", state="hidden")
        assert not complaints
