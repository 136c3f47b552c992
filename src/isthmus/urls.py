"""Tell a URL from a path, and repeat one in a message without its password."""

from __future__ import annotations

import re

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(.*)", re.DOTALL)
# What stands between the name of a user and the last @, unless it is a port: passwords may contain @ and /.
PASSWORD = re.compile(r"//([^:@/\s]*):(?!\d+(?:[/?#,\s]|$))\S*@")
PARAMETER = re.compile(r"([?&](?:password|sslpassword|token|api_?key)=)[^&\s]+", re.IGNORECASE)


def url_of(path: str) -> str | None:
    """Return a path that is a URL, with the slash that ``pathlib`` leaves out; None if it is a plain path.

    >>> url_of("qdrant:/localhost/things"), url_of("C:/things"), url_of("things")
    ('qdrant://localhost/things', None, None)
    """
    found = URL.fullmatch(path)
    return None if found is None else f"{found[1]}://{found[2]}"


def without_password(text: str) -> str:
    """Remove the passwords from all URLs in a text.

    >>> without_password("postgresql://ada:s3/c@ret@db.example/library is down")
    'postgresql://ada@db.example/library is down'
    >>> without_password("postgresql://db.example:5432/library?user=ada&password=secret&sslmode=require")
    'postgresql://db.example:5432/library?user=ada&password=…&sslmode=require'
    """
    return PARAMETER.sub(r"\1…", PASSWORD.sub(r"//\1@", text))
