"""The first paint of the page in Chromium, on loopback: milliseconds, requests and bytes.

    python bench/page.py [--visits 9]

first      a browser that has never been there: nothing is kept
again      the same browser once more
paint      the first contentful paint, from the request on; only the document is fetched before it
documents  the first cards of the sample folder are there, of which the page has to ask the server
bytes      of the page's own files, compressed, with their headers

Medians over the visits. It indexes the sample folder, and needs Playwright (`pip install playwright`) and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from serve_process import isthmus

from isthmus import Collection, samples

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
CARDS = "() => document.querySelectorAll('#grid li[data-id]').length > 0 && performance.now()"
MEASURED = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
  const own = performance.getEntriesByType("resource").filter((one) => /\\.(js|css|svg)$/.test(one.name));
  const all = [...performance.getEntriesByType("navigation"), ...own];
  return [paint, all.filter((one) => one.transferSize > 0).length, all.reduce((sum, one) => sum + one.transferSize, 0)];
}"""


def visit(context: BrowserContext, address: str) -> tuple[float, ...]:
    """Open the page in a new tab; return the milliseconds to its paint and its documents, requests and bytes."""
    page = context.new_page()
    page.goto(address, wait_until="load")
    documents = page.wait_for_function(CARDS).json_value()
    paint, requests, size = page.evaluate(MEASURED)
    page.close()
    return paint, documents, requests, size


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visits", type=int, default=9)
    visits = parser.parse_args().visits
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as scratch:
        with Collection.open(Path(scratch, "samples.isthmus"), follow=False) as things:
            things.index(samples.folder(), ocr="never")
        with isthmus(Path(scratch)) as server, sync_playwright() as playwright:
            address = f"http://127.0.0.1:{server.port}/"
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            found: dict[str, list[tuple[float, ...]]] = {"first": [], "again": []}
            for _ in range(visits):
                context = browser.new_context()
                for which in found:
                    found[which].append(visit(context, address))
                context.close()
            browser.close()
    print(f"{'':<8}{'paint':>10}{'documents':>12}{'requests':>10}{'bytes':>10}")
    for which, rows in found.items():
        paint, documents, requests, size = (median(column) for column in zip(*rows, strict=True))
        print(f"{which:<8}{paint:>7.0f} ms{documents:>9.0f} ms{requests:>10.0f}{size:>10,.0f}")


if __name__ == "__main__":
    main()
