"""Addresses of stores, such as ``KIND:PLACE?OPTION=VALUE``.

>>> StoreAddress.read("chroma:/data/chroma/photos?modality=kind")
StoreAddress(kind='chroma', place='/data/chroma/photos', options={'modality': 'kind'})
>>> StoreAddress.read("chroma:/data/chroma/photos").folder_and_name()
('/data/chroma', 'photos')
>>> str(StoreAddress.read("pgvector:postgresql://me:secret@localhost/shop/photos"))
'pgvector:postgresql://me@localhost/shop/photos'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from isthmus.errors import BadInput, shown
from isthmus.urls import without_password

ADDRESS = re.compile(r"([a-z][a-z0-9-]+):(?!//)(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of a store."""

    kind: str
    place: str
    options: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> StoreAddress:
        """Split an address; whether its kind and its options exist is not checked here."""
        found = ADDRESS.fullmatch(text)
        if found is None:
            raise BadInput(f"{shown(text)} is no address of a store. Write KIND:PLACE, as in chroma:FOLDER/COLLECTION.")
        place, _, options = found[2].partition("?")
        return cls(found[1], place, dict(parse_qsl(options, keep_blank_values=True)))

    def folder_and_name(self) -> tuple[str, str]:
        """Split the place at its last slash: a folder or a server, and the collection or table in it."""
        where, slash, name = self.place.rpartition("/")
        if not slash or not where or not name:
            raise BadInput(f"{shown(self.place)} names no collection. Write {self.kind}:PLACE/COLLECTION.")
        return where, name

    @property
    def name(self) -> str:
        """The last part of the place, without the end of a file's name."""
        return re.sub(r"\.\w+$", "", self.place.rstrip("/").rpartition("/")[2])

    @property
    def quoted(self) -> str:
        """The address with its options and without passwords, as an argument of the shell.

        >>> StoreAddress.read("chroma:data/photos?modality=kind").quoted
        '"chroma:data/photos?modality=kind"'
        """
        options = "&".join(f"{name}={value}" for name, value in self.options.items())
        return f'"{self.kind}:{without_password(f"{self.place}?{options}")}"' if options else str(self)

    def __str__(self) -> str:
        """The address without options and without a password: it is printed, and stored in files."""
        return f"{self.kind}:{without_password(self.place)}"


def looks_like_store(text: str | None) -> bool:
    """Whether an argument is the address of a store: a calibration's spec has no colon.

    >>> looks_like_store("chroma:data/photos"), looks_like_store("center+nnn(k=16)"), looks_like_store("http://a/b")
    (True, False, False)
    """
    return text is not None and ADDRESS.fullmatch(text) is not None
