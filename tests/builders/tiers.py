"""Which cases of a test run in the suite, which in `.ci/run` only, and which every night (`.ci/nightly`)."""

import os
from collections.abc import Container, Iterable
from typing import Any

import pytest

ALL_DEATHS = bool(os.environ.get("TRIMTAB_ALL_DEATHS"))
"""Whether a process dies at every point of its life, instead of at some."""


def nightly_but(kept: Container[Any], cases: Iterable[Any]) -> list[Any]:
    """Return a test's cases, tuples or values, those that are not `kept` with the marker `nightly`."""
    return _marked(kept, cases, pytest.mark.nightly)


def ci_but(kept: Container[Any], cases: Iterable[Any]) -> list[Any]:
    """Return a test's cases likewise, those that are not `kept` with the marker `ci`."""
    return _marked(kept, cases, pytest.mark.ci)


def _marked(kept: Container[Any], cases: Iterable[Any], mark: pytest.MarkDecorator) -> list[Any]:
    return [
        case if case in kept else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)
        for case in cases
    ]
