"""Which cases of a test run with each change, and which only every night (`.ci/nightly`)."""

import os
from collections.abc import Container, Iterable
from typing import Any

import pytest

ALL_DEATHS = bool(os.environ.get("TRIMTAB_ALL_DEATHS"))
"""Whether a process dies at every point of its life, instead of at some."""


def nightly_but(kept: Container[Any], cases: Iterable[Any]) -> list[Any]:
    """Return a test's cases, tuples or values, those that are not `kept` with the marker `nightly`."""
    return [
        case
        if case in kept
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)
        for case in cases
    ]
