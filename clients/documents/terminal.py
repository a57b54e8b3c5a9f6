"""Text on its way to a terminal: characters that would control the terminal are written visibly."""

import re
from typing import Final

_CONTROL: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters except the line feed, and characters that change the direction or line of the text after them."""


def visible(text: str) -> str:
    """Return the text with each control character as an escape such as `\\x1b`; line feeds stay."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
