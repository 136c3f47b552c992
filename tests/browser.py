"""Helpers for tests in a browser: Debian's Chromium, and what a person does with files."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import numpy as np

import needed
from isthmus import Collection, Document, samples
from recordings import noise, video, write
from recordings import siren as siren_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = which("chromium") or which("google-chrome")  # Debian's; or that of a machine that runs CI
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
COUNT_URLS = """
  window.urls = new Set();
  const [make, free] = [URL.createObjectURL, URL.revokeObjectURL];
  URL.createObjectURL = (given) => { const url = make.call(URL, given); window.urls.add(url); return url; };
  URL.revokeObjectURL = (url) => { window.urls.delete(url); free.call(URL, url); };
"""
TRANSFER = """
  ({ type, files, on }) => {
    const data = new DataTransfer();
    for (const { name, kind, bytes } of files) {
      data.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name, { type: kind }));
    }
    const place = document.querySelector(on);
    const options = { bubbles: true, cancelable: true };
    if (type === "paste") place.dispatchEvent(new ClipboardEvent("paste", { ...options, clipboardData: data }));
    else for (const name of type === "drop" ? ["dragover", "drop"] : [type]) {
      place.dispatchEvent(new DragEvent(name, { ...options, dataTransfer: data }));
    }
  }
"""
WIDER = """
  [document.documentElement, ...document.querySelectorAll("dialog[open]")]
    .filter((one) => one.scrollWidth > Math.min(one.clientWidth + 1, innerWidth))
    .map((one) => `${one.tagName} ${one.scrollWidth}`)
"""
File = tuple[str, str, bytes]  # name, media type, content
WIDTHS = {390: 844, 768: 1024, 1440: 900}  # of a phone, a tablet and a desktop, with their heights
SCHEMES = ("light", "dark")


def missing() -> str | None:
    """Return what these tests need and this machine lacks, or None."""
    if find_spec("playwright") is None or find_spec("axe_playwright_python") is None:
        return "Playwright or axe is not installed: make test-all installs both"
    if CHROMIUM is None:
        return "chromium is not installed: apt-get install chromium"
    return None


def need_browser() -> None:
    """Skip a test without a browser; where everything has to run, fail."""
    if why := missing():
        needed.skip(why)


@contextmanager
def chromium() -> Iterator[Browser]:
    need_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def tab(browser: Browser, address: str, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """Open a page; what it complains about is listed: errors of scripts, and what the content policy refused."""
    settings = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce", **options}
    context = browser.new_context(**settings)
    context.add_init_script(COUNT_URLS)
    page = context.new_page()
    page.set_default_timeout(10_000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.goto(address)
    try:
        yield page, complaints
    finally:
        context.close()


def transfer(page: Page, kind: str, files: Sequence[File], on: str = "body") -> None:
    """Paste, hold or drop files on an element, as the browser tells the page."""
    sent = [{"name": name, "kind": media, "bytes": b64encode(data).decode()} for name, media, data in files]
    page.evaluate(TRANSFER, {"type": kind, "files": sent, "on": on})


def drop(page: Page, files: Sequence[Path]) -> None:
    """Drop files and folders of this machine onto the page, as the window system does."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "dragOver", "drop"):  # the second one is over what the page shows by then
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": data})


def ids(page: Page) -> list[str]:
    """Return the ids of the documents in the grid, in order."""
    found: list[str] = page.eval_on_selector_all("#grid li[data-id]", "all => all.map((one) => one.dataset.id)")
    return found


def few_samples(root: Path) -> None:
    """Make a collection of samples, with the encoder that has maps; and of a recording and a video."""
    siren = write(root / "street.wav", np.concatenate([noise(30), siren_of(10), noise(8, 1)]))
    film = video(root / "film.mp4", [(4, (200, 30, 30)), (4, (30, 160, 60))], noise(8))
    with Collection.open(root / "few.isthmus", follow=False) as few:
        for name in ("photos/lake.jpg", "photos/bee.jpg", "notes/glaciers.md", "notes/espresso.md"):
            file = samples.folder() / name
            few.add([Document(name, image=file) if file.suffix == ".jpg" else Document(name, file.read_text("utf-8"))])
        few.add([Document("lake+words", "Snow above a lake.", samples.folder() / "photos/lake.jpg")])
        few.add([Document("street.wav", audio=siren), Document("film.mp4", video=film, audio=film)])
        few.search("a cat")


def too_wide(page: Page) -> list[str]:
    """Return what is wider than the window: the page, or a dialog that is open."""
    return list(page.evaluate(WIDER))


def serious(page: Page) -> list[str]:
    """Return what axe finds that is serious or critical."""
    page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished.catch(() => null)))")
    page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    bad = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in bad]
