"""Names with control characters do not control the terminal."""

import pytest

from trimtab.clients.documents.output import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jn1", "\\x1b[2Jn1"),
        ("a\rb\tc\x7f\x9b", "a\\rb\\tc\\x7f\\x9b"),
        ("\u202en1", "\\u202en1"),
        ("größe-1 · ✓\nnext", "größe-1 · ✓\nnext"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown
