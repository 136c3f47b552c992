"""The URL of a collection on a PostgreSQL server.

    postgresql://user@host:5432/database?collection=things&sslmode=require

``collection`` names the schema that holds the tables (default: ``isthmus``); every other parameter is libpq's. A
password in the URL is passed to the server and shown nowhere.

>>> address = PostgresAddress.of("postgresql://ada:secret@db.example/library?collection=things&sslmode=require")
>>> str(address), address.collection
('postgresql://ada@db.example/library?collection=things', 'things')
>>> PostgresAddress.of("postgres:///library").collection
'isthmus'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from isthmus.errors import BadInput
from isthmus.urls import PASSWORD

SCHEMES = ("postgresql", "postgres")
PARAMETER = "collection"
DEFAULT = "isthmus"
NAMES = ("database", "database-half")  # where a collection keeps its folded vectors: in the same database
SHARDED = ("shards", "shards-half")  # or on the shard servers of that database
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,47}")  # PostgreSQL's names have 63 bytes; ours get an ending
TAKEN = ("public", "information_schema")  # schemas that other tables live in
BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})|%00")
SECONDS = 10  # to wait for a connection
# A server that has vanished without a word is noticed after about a minute, not after two hours.
USUAL = {"connect_timeout": str(SECONDS), "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Where a collection is: the server's URL for libpq, the name of the collection, and what messages show."""

    url: str = field(repr=False)  # it may have a password
    collection: str
    shown: str

    def __str__(self) -> str:
        return self.shown

    @classmethod
    def of(cls, text: str) -> PostgresAddress:
        """Read a URL."""
        try:
            parts = urlsplit(text)
            given = parse_qsl(parts.query, keep_blank_values=True)
            shown = _without_password(parts)
        except ValueError:
            raise BadInput(_UNREADABLE) from None
        at = parts.netloc.count("@")
        if at > 1 or (not at and PASSWORD.search(text)) or BAD_ESCAPE.search(parts.netloc):
            raise BadInput(_UNREADABLE)
        if parts.scheme in SCHEMES and "://" not in text:
            raise BadInput(f"The URL of the collection has lost a slash: pass it as a string, not as a Path. {_HOW}")
        if parts.scheme not in SCHEMES:
            raise BadInput(f"{parts.scheme!r} is not the scheme of a PostgreSQL server. {_HOW}")
        name = dict(given).get(PARAMETER, DEFAULT)
        if not NAME.fullmatch(name) or name in TAKEN or name.startswith("pg_"):
            raise BadInput(
                f"A collection cannot be called {name[:60]!r}: it becomes a schema. Use up to 48 letters, digits, _ "
                "and -, beginning with a letter; not public, and nothing that begins with pg_."
            )
        libpq = {**USUAL, **{key: value for key, value in given if key != PARAMETER}}
        url = parts._replace(scheme="postgresql", query=urlencode(libpq, quote_via=quote), fragment="").geturl()
        return cls(_with_slashes(url), name, _with_slashes(f"{shown}?{PARAMETER}={name}"))


def is_address(path: str) -> bool:
    """Whether a path is the URL of a PostgreSQL server.

    >>> is_address("postgresql://localhost/db"), is_address("things.isthmus")
    (True, False)
    """
    return path.startswith(tuple(f"{scheme}:/" for scheme in SCHEMES))


def _without_password(parts: SplitResult) -> str:
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    hosts = parts.netloc.rpartition("@")[2]
    _ = parts.port if "," not in hosts else None  # raises for a port that is no number
    return parts._replace(
        scheme="postgresql", netloc=f"{user}@{hosts}" if user else hosts, query="", fragment=""
    ).geturl()


def _with_slashes(url: str) -> str:
    """Return a URL with two slashes: urllib leaves them out where there is no host."""
    return url if url.startswith("postgresql://") else url.replace("postgresql:", "postgresql://", 1)


_HOW = "Write postgresql://user@host/database?collection=things."
_UNREADABLE = (  # what is wrong may be in the password, which is not repeated
    "The URL of the collection cannot be read: its host or its port is not one. Special characters of a password are "
    f"escaped: %40 is @, %2F is /, %3A is :, %25 is %. {_HOW}"
)
