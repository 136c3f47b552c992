"""Helpers for tests in a browser: Debian's Chromium, and what a person does with files."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = which("chromium")
AXE = Path(sys.prefix, "axe", "node_modules", "axe-core", "axe.min.js")  # where `make test-all` puts it
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
File = tuple[str, str, bytes]  # name, media type, content


@contextmanager
def chromium() -> Iterator[Browser]:
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


def ids(page: Page) -> list[str]:
    """Return the ids of the documents in the grid, in order."""
    found: list[str] = page.eval_on_selector_all("#grid li[data-id]", "all => all.map((one) => one.dataset.id)")
    return found


def serious(page: Page) -> list[str]:
    """Return what axe finds that is serious or critical."""
    page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished.catch(() => null)))")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    bad = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in bad]
