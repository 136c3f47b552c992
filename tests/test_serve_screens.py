"""The page on a phone, a tablet and a desktop, in light and dark; and what its first paint takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from browser import SCHEMES, WIDTHS, chromium, few_samples, serious, tab, too_wide, transfer
from serving import address_of, fill, png

pytestmark = pytest.mark.install

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SHIFTS = """
  window.shifts = 0;
  const add = (list) => list.getEntries().forEach((one) => { window.shifts += one.value; });
  new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Iterator[str]:
    root = tmp_path_factory.mktemp("screens")
    fill(root, tiny)
    few_samples(root)
    with address_of(root) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def screens(page: Page, address: str) -> Iterator[str]:
    """Go through every view, and stop at each."""
    page.wait_for_selector("#grid img.loaded")
    yield "start"
    page.fill("#words", "a red cat")
    page.wait_for_selector("#grid .match")
    yield "hits that are all alike"
    page.get_by_role("button", name="Filter").click()
    page.wait_for_selector("#filter fieldset")
    yield "filters"
    page.keyboard.press("Escape")
    page.click("#health")
    page.get_by_role("button", name="Examine").click()
    page.wait_for_selector(".verdict", timeout=60_000)
    for one in page.locator("#state summary").all():
        one.click()
    yield "health"
    page.goto(f"{address}/#c=few&q=snowy+mountains+and+a+siren")
    page.wait_for_selector("#rest .match")
    yield "hits, and less likely ones"
    page.check("#ranking [value=raw]")
    yield "raw"
    page.goto(f"{address}/#c=few&q=snowy+mountains+and+a+lake&doc=lake%2Bwords")
    page.get_by_role("switch").click()
    page.wait_for_selector("#document canvas.heat")
    page.wait_for_selector("#neighbours li")
    for one in page.locator("#document summary").all():
        one.click()
    yield "a document with its map"
    page.goto(f"{address}/#c=few&q=a+siren&doc=street.wav")
    page.wait_for_selector("#document .moment")
    yield "a sound"
    page.keyboard.press("Escape")
    transfer(page, "dragover", [("cat.png", "image/png", png(4))])
    yield "a dragged picture"
    transfer(page, "drop", [("bad.png", "image/png", b"no picture")], on="#drop-add")
    page.wait_for_function("() => document.querySelector('#toast').textContent.includes('skipped')")
    yield "a report"
    page.route("**/search", lambda route: route.abort())
    page.fill("#words", "bee")
    page.wait_for_selector("#notice:not([hidden])")
    yield "a server that is gone"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_view_is_wider_than_the_window_and_axe_finds_nothing_serious(
    browser: Browser, address: str, width: int, scheme: str
) -> None:
    size = {"width": width, "height": WIDTHS[width]}
    with tab(browser, f"{address}/#c=things", viewport=size, color_scheme=scheme, bypass_csp=True) as (page, _):
        for view in screens(page, address):
            assert (view, too_wide(page), serious(page)) == (view, [], [])
            assert page.evaluate("document.querySelector('#words').offsetWidth") > min(0.6 * width, 500)


def test_the_chosen_ranking_is_lighter_than_its_track_in_the_dark(browser: Browser, address: str) -> None:
    light = """() => ["#ranking", "#ranking input:checked + span"]
      .map((one) => getComputedStyle(document.querySelector(one)).backgroundColor)
      .map((colour) => colour.match(/\\d+/g).reduce((sum, n) => sum + Number(n), 0))"""
    for scheme in SCHEMES:
        with tab(browser, f"{address}/#c=things&q=cat", color_scheme=scheme) as (page, _):
            page.wait_for_selector("#ranking:not([hidden])")
            track, chosen = page.evaluate(light)
            assert chosen > track


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_jumps_while_the_page_fills_and_the_first_hit_stands_high(
    browser: Browser, address: str, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": WIDTHS[width]})
    context.add_init_script(SHIFTS)
    page = context.new_page()
    page.goto(f"{address}/#c=few&q=a+siren")
    page.wait_for_selector("#grid img.loaded")
    assert page.evaluate("window.shifts") < 0.03  # layout shifts as browsers count them: the footer may move
    assert page.evaluate("document.querySelector('#grid li').getBoundingClientRect().top") < 215
    context.close()


def test_the_document_alone_is_enough_for_the_first_paint(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    held = list[str]()
    page.route(lambda url: not url.endswith("/"), lambda route: held.append(route.request.url))  # and never answer
    page.goto(f"{address}/", wait_until="commit")
    page.wait_for_function(PAINTED)
    assert len(held) > 20
    assert page.evaluate("performance.getEntriesByType('resource').filter((one) => one.responseEnd > 0).length") == 0
    context.close()


def test_a_second_visit_fetches_the_document_anew_and_no_other_file_of_the_page(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    sizes = """() => performance.getEntriesByType("resource").filter((one) => /\\.(js|css)$/.test(one.name))
      .map((one) => one.transferSize)"""
    page.goto(f"{address}/#c=things", wait_until="load")
    page.wait_for_selector("#grid li[data-id]")
    first = page.evaluate(sizes)
    page.goto("about:blank")
    page.goto(f"{address}/#c=things", wait_until="load")
    page.wait_for_selector("#grid li[data-id]")
    assert min(first) > 0
    assert page.evaluate(sizes) == [0] * len(first)
    context.close()
