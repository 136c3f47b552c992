"""The address of a server of vectors: ``SCHEME://HOST:PORT/NAME?SETTING=VALUE``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from isthmus.errors import BadInput
from isthmus.registry import lookup
from isthmus.urls import PASSWORD

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where vectors live, and the settings that stand there.

    >>> there = ServerAddress.parse("qdrant://localhost:6333/things?exact=true")
    >>> there.scheme, there.place, there.name, there.flag("exact")
    ('qdrant', 'localhost:6333', 'things', True)
    """

    text: str  # as it was given
    scheme: str
    place: str  # host and port; or ``:memory:``; or a folder
    name: str  # of the collection on the server
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ServerAddress:
        """Read an address, or raise an error."""
        try:
            parts = urlsplit(text)
            settings = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        except ValueError:
            raise BadInput(f"{text!r} cannot be read as an address.") from None
        if "@" in parts.netloc or PASSWORD.search(text):
            raise BadInput(
                f"The address {parts.scheme}://… came with a user name or a password, and it is stored in the "
                "collection. Leave them out and set them in the environment."
            )
        folder, _, name = parts.path.rpartition("/")
        if not NAME.fullmatch(name):
            raise BadInput(
                f"{text!r} has no name for the vectors on the server. Write one of letters, digits and _ at the end: "
                f"{parts.scheme}://{parts.netloc or 'HOST'}/things."
            )
        return cls(text, parts.scheme, parts.netloc + folder, name, settings)

    def check(self, *known: str) -> None:
        """Reject settings that are not known."""
        for name in self.settings:
            lookup({one: one for one in known}, name, f"setting of a {self.scheme} address")

    def flag(self, name: str) -> bool:
        """Return a setting that is true or false; false if it is left out."""
        return lookup({"true": True, "false": False}, self.settings.get(name, "false"), f"value of {name}")

    def number(self, name: str, usual: int | None = None) -> int | None:
        """Return a setting that is a whole number."""
        value = self.settings.get(name)
        if value is None:
            return usual
        if not value.isdecimal() or not int(value):
            raise BadInput(f"{name} = {value!r} in {self.text!r} is not a number. Use 1 or more.")
        return int(value)
