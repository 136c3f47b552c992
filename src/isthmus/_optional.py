"""Late imports of optional dependencies, and whether downloads are allowed."""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from types import ModuleType

from isthmus.errors import MissingExtra

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "ISTHMUS_OFFLINE")


def offline() -> bool:
    """Whether the environment forbids downloads."""
    return any(os.environ.get(variable, "").lower() in ("1", "true", "yes", "on") for variable in OFFLINE)


def need(module: str, *, extra: str) -> ModuleType:
    """Import ``module``, or raise an error that names the extra to install.

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
        raise _missing(module, extra) from None


def require(module: str, *, extra: str) -> None:
    """Raise the error of ``need`` if ``module`` is not installed, without importing it.

    >>> require("json", extra="none")
    """
    if find_spec(module) is None:
        raise _missing(module, extra)


def _missing(module: str, extra: str) -> MissingExtra:
    return MissingExtra(f"This needs {module!r}. Install it with: pip install 'isthmus[{extra}]'")
