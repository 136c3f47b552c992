"""The files of the page: read once, compressed once, and sent so that a browser asks for each of them once.

Modules and stylesheets have addresses that name the content of the whole folder, so browsers keep them for good; the
imports between modules are relative, and stay in that folder. The document itself is asked for again, and answered by
304 if it is the same. The stylesheet of the first view stands inside the document: nothing else is needed to paint it.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from isthmus.serve.guards import PAGE_POLICY

DOCUMENT = "index.html"
FIRST_STYLE = "style.css"  # stands inside the document
FOR_GOOD = "public, max-age=31536000, immutable"
KINDS: Mapping[str, str] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
ZERO = re.compile(r"q=0(?:\.0*)?")


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent: plain, and compressed."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str

    @classmethod
    def of(cls, name: str, content: bytes) -> PageFile:
        """Compress a file."""
        packed = gzip.compress(content, 9, mtime=0)
        return cls(KINDS[Path(name).suffix], content, packed, f'W/"{sha256(content).hexdigest()[:20]}"')


class PageFiles:
    """Answers requests for the files of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read and compress the files."""
        found = {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix in KINDS}
        content = sha256(b"\0".join(name.encode() + b"\0" + data for name, data in found.items()))
        self.version = content.hexdigest()[:16]
        style = found[FIRST_STYLE].decode("utf-8")
        found[DOCUMENT] = _assembled(found[DOCUMENT].decode("utf-8"), style, found, self.version).encode()
        self.policy = _policy(style)
        self.files = {name: PageFile.of(name, data) for name, data in found.items()}

    async def answer(self, request: Request) -> Response:
        """Return a file; raises ``HTTPException`` with 404 if there is none of this name."""
        path: str = request.path_params["file"]
        folder, _, name = path.rpartition("/")
        kept = folder == self.version
        name = name if kept else path or DOCUMENT
        file = self.files.get(name)
        if file is None:
            raise HTTPException(404)
        headers = {"ETag": file.tag, "Vary": "Accept-Encoding", "Cache-Control": FOR_GOOD if kept else "no-cache"}
        if name == DOCUMENT:
            headers["Content-Security-Policy"] = self.policy
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body = file.plain
        if takes_gzip(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"], body = "gzip", file.packed
        return Response(body, headers=headers, media_type=file.kind)


def takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header allows gzip.

    >>> takes_gzip("deflate, gzip;q=0.5"), takes_gzip("gzip;q=0"), takes_gzip("br"), takes_gzip("")
    (True, False, False, False)
    """
    named = (one.partition(";") for one in accepted.split(","))
    return any(name.strip() == "gzip" and not ZERO.fullmatch(weight.strip()) for name, _, weight in named)


def _assembled(document: str, style: str, names: Mapping[str, bytes], version: str) -> str:
    """Put the first stylesheet into the document, and the version into the addresses of the other files."""
    inside = document.replace(f'<link rel="stylesheet" href="{FIRST_STYLE}">', f"<style>{style}</style>")

    def versioned(found: re.Match[str]) -> str:
        attribute, name = found.groups()
        return f'{attribute}="{version}/{name}"' if name in names else found[0]

    return re.sub(r'\b(href|src)="([\w.-]+)"', versioned, inside)


def _policy(style: str) -> str:
    """Return the content policy of the page, which allows this one style inside it."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return PAGE_POLICY.replace("style-src 'self'", f"style-src 'self' 'sha256-{digest}'")
