"""Names with control characters do not control the terminal."""

import json

import pytest
import yaml

from trimtab.clients.cli.output import Format
from trimtab.clients.cli.printing import print_document
from trimtab.common.documents.output import is_visible, visible, visible_texts


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


NASTY = "a\u202e\u2066\u061c\x1b[2J\x9bb"
SHOWN = "a\\u202e\\u2066\\u061c\\x1b[2J\\x9bb"


def test_texts_and_keys_of_a_document_are_made_visible() -> None:
    assert visible_texts({NASTY: [NASTY, 1, None, (True, {"x": NASTY})]}) == {
        SHOWN: [SHOWN, 1, None, [True, {"x": SHOWN}]]
    }


@pytest.mark.parametrize("form", [Format.JSON, Format.YAML])
def test_documents_for_programs_keep_texts_and_control_no_terminal(
    form: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"größe": NASTY, NASTY: "x"}
    print_document(document, form)
    printed = capsys.readouterr().out
    assert is_visible(printed)
    assert (json.loads if form is Format.JSON else yaml.safe_load)(printed) == document
