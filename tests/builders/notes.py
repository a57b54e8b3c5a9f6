"""Notes of tests, which the run prints at its end: an improvement that a table of known differences does not say yet.

A note is no fault: the test passes. Notes come from all processes of a run.
"""

from collections.abc import Callable, Iterable
from typing import Any

PROPERTY = "note"
"""The name of a note among the properties of a test's report."""

Note = Callable[[str], None]
"""Writes one note; see the fixture `note`."""


def notes_of(reports: Iterable[Any]) -> list[str]:
    """Return the notes in the reports of a run, each once, by test."""
    found = [
        (report.nodeid, text)
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == PROPERTY and getattr(report, "when", "") == "call"
    ]
    return [f"{test}: {text}" for test, text in sorted(set(found))]


def assert_known(found: dict[str, Any], known: dict[str, str], note: Note) -> None:
    """Assert that only known differences are left; note those that are gone.

    found, known : by the name of a document, what differs and why it may.
    """
    new = {name: said for name, said in found.items() if name not in known}
    assert new == {}
    for name in sorted(known.keys() - found.keys()):
        note(f"{name} is no worse any more; take it out of the table: {known[name]}")
