"""Late imports of optional dependencies."""

from __future__ import annotations

import importlib
from types import ModuleType

from isthmus.errors import MissingExtra


def need(module: str, *, extra: str) -> ModuleType:
    """Import ``module``, or say which extra brings it.

    >>> need("json", extra="none").dumps([1])
    '[1]'
    >>> need("no_such_module", extra="ann")
    Traceback (most recent call last):
    isthmus.errors.MissingExtra: This needs 'no_such_module'. Install it with: pip install 'isthmus[ann]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtra(f"This needs {module!r}. Install it with: pip install 'isthmus[{extra}]'") from None
