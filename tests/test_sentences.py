"""Sentences that the programs print are read once: patterns that readers had to read twice do not come back."""

import re

import pytest

from tests.sentences import SOURCES, sentences

pytestmark = pytest.mark.ci
"""For those who change the tree, as the house rules."""
PATTERNS = {
    r"\bcount as without\b": "say what is planned",
    r"\bas (many|far|long) as goes\b": "give the number",
    r"\bso new ones are planned so\b": "say how",
    r"\bdear(er|est)?\b": "expensive",
    r"\bdrawn by lot\b": "chosen at random",
    r"\bas it likes\b": "in any order",
    r"\bby chosen\b": "a verb after `by` is no noun",
    r"\bno matter\b": "ignored",
}
"""What is hard to read, and what to write instead; from reports of readers."""


@pytest.mark.parametrize("folder", SOURCES)
def test_no_sentence_has_a_pattern_that_was_hard_to_read(folder: str) -> None:
    found = [
        f"{place}: {text!r}: {advice}"
        for place, text in sentences(folder)
        for pattern, advice in PATTERNS.items()
        if re.search(pattern, text)
    ]
    assert found == []


def test_the_list_has_texts_of_all_programs_and_no_docstrings() -> None:
    texts = {text for _, text in sentences()}
    assert "the snapshot has no node {}" in texts
    assert not any(text.startswith("Return whether ") for text in texts)
