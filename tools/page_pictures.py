"""Take the four pictures of the page that docs/serve.md shows, in Chromium.

    python tools/page_pictures.py [--out docs/images]

The collection is the sample folder with two recordings and a scanned letter in a PDF file, which are made here. It
needs what the tests of the page need: the extras `test-all`, `align` and `pdf`, and Chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from isthmus import Collection, samples

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from browser import chromium, tab
from recordings import noise, siren, telephone, write
from serving import address_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LETTER = """TOWN COUNCIL OF LINDHOLM
Department of Streets

14 March 1968

Dear Mrs Lindgren,

thank you for your letter about the
sirens at night. Ambulances and fire
engines pass Harbour Street on their way
to the hospital, and must sound the
siren at the crossing. From May on a
traffic light will stop the other cars,
and the sirens will be silent after ten.

Yours sincerely,

Olof Berg"""
STYLE = "margin: 0; padding: 60px 50px; background: #f6f1e4; font: 22px/34px monospace; white-space: pre"


@dataclass(frozen=True)
class Shot:
    """A picture: its name, the size of the window, the colours, the address of the view, and when it is ready."""

    name: str
    size: tuple[int, int]
    scheme: str
    view: str
    ready: Callable[[Page], object]
    scale: int = 1


def hits(page: Page) -> None:
    """Wait for the likely hits and for the others."""
    page.wait_for_selector("#grid .match")
    page.wait_for_selector("#rest .match")


def document(page: Page) -> None:
    """Show what matched, and wait for the map and the neighbours."""
    page.get_by_role("switch").click()
    page.wait_for_selector("#document canvas.heat")
    page.wait_for_selector("#neighbours img.loaded")


def health(page: Page) -> None:
    """Examine the collection, and wait for the verdict."""
    page.click("#health")
    page.get_by_role("button", name="Examine").click()
    page.wait_for_selector(".verdict", timeout=60_000)


SHOTS = (
    Shot("page-search", (1440, 900), "light", "q=a+siren+in+the+street", hits),
    Shot("page-document", (1440, 900), "dark", "q=a+colourful+parrot&doc=photos%2Fmacaw.jpg", document),
    Shot("page-health", (768, 1024), "light", "", health),
    Shot("page-phone", (390, 844), "dark", "q=a+wild+animal+near+the+water", hits, scale=2),
)


def scanned(browser: Browser) -> Image.Image:
    """Return a typed letter, as a scanner sees it: a little turned, with grain."""
    page = browser.new_page(viewport={"width": 600, "height": 820})
    page.set_content(f'<body style="{STYLE}">{LETTER}</body>')
    sharp = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    page.close()
    turned = sharp.rotate(0.5, Image.Resampling.BICUBIC, fillcolor=sharp.getpixel((2, 2)))
    grain = np.random.default_rng(0).normal(0, 4, (turned.height, turned.width, 1))
    return Image.fromarray(np.clip(np.asarray(turned) + grain, 0, 255).astype(np.uint8))


def collected(root: Path, browser: Browser) -> None:
    """Index the sample folder with a letter and recordings."""
    folder = root / "samples"
    shutil.copytree(samples.folder(), folder)
    scanned(browser).save(folder / "council-letter.pdf", resolution=72, quality=90)  # one page, of pixels
    quiet = noise(35) * 0.05
    write(folder / "street-at-night.wav", np.concatenate([quiet, siren(5), noise(8, 1) * 0.05]))
    write(folder / "office.wav", np.concatenate([noise(10, 2) * 0.05, telephone(5), noise(6, 3) * 0.05]))
    with Collection.open(root / "things.isthmus", follow=False) as things:
        things.index(folder, ocr="auto")
        things.calibrate()


def take(shot: Shot, browser: Browser, address: str, out: Path) -> None:
    """Open a view and write its picture."""
    width, height = shot.size
    options = {"viewport": {"width": width, "height": height}, "device_scale_factor": shot.scale}
    with tab(browser, f"{address}/#{shot.view}", color_scheme=shot.scheme, **options) as (page, complaints):
        page.wait_for_selector("#grid img.loaded")
        shot.ready(page)
        page.wait_for_load_state("networkidle")
        taken = Image.open(io.BytesIO(page.screenshot()))
        taken.convert("RGB").save(out / f"{shot.name}.jpg", quality=85, progressive=True)
        print(out / f"{shot.name}.jpg", *complaints, flush=True)


def main(out: Path) -> None:
    """Make the collection, serve it, and take every picture."""
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        root = Path(scratch)
        collected(root, browser)
        with address_of(root) as address:
            for shot in SHOTS:
                take(shot, browser, address, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "docs/images")
    main(parser.parse_args().out)
