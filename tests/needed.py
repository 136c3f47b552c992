"""What a test needs and this machine may lack. ``make test-all`` asks for everything: there, nothing may be missing."""

from __future__ import annotations

import os
from shutil import which
from typing import NoReturn

import pytest

EVERYTHING = "ISTHMUS_TEST_ALL"  # where it is set, as `make test-all` does, a test that cannot run fails


def skip(why: str) -> NoReturn:
    """Skip a test; where everything has to run, fail."""
    if os.environ.get(EVERYTHING):
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def program(name: str) -> str:
    """Return where a program is that a test needs."""
    found = which(name)
    if found is None:
        skip(f"{name} is not installed")
    return found


def unless(why: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test for this reason, if there is one; where everything has to run, the test fails."""
    return pytest.mark.skipif(bool(why) and not os.environ.get(EVERYTHING), reason=why)
