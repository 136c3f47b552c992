"""Hooks of the documentation site for mkdocs: links into the repository, and doctests in docstrings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from griffe import Extension, Object
from mkdocs.exceptions import PluginError

OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)#]+)(?:#[^)]*)?\)")
DOCTEST = re.compile(r"^>>> (?:.+\n?)+", re.MULTILINE)  # up to the next blank line, as doctest reads it


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace links to files outside docs/, which are not part of the site, by their paths."""
    docs = Path(config["docs_dir"])

    def plain(link: re.Match[str]) -> str:
        text, up, target = link.groups()
        path = (docs / page.file.src_path).parent / up / target
        if not path.exists():
            raise PluginError(f"{page.file.src_path} links to {up}{target}, which does not exist.")
        if path.resolve().is_relative_to(docs.resolve()):
            return link[0]
        where = path.resolve().relative_to(docs.resolve().parent)
        return text if text.strip("`").endswith(where.name) else f"{text} (`{where.as_posix()}`)"

    return OUTSIDE.sub(plain, markdown)


class Doctests(Extension):
    """Show the examples of docstrings as code; Markdown reads ``>>>`` as a quotation."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Put the examples of one docstring into fenced code blocks."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(
                lambda found: f"```python\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
