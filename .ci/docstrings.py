"""Shows the parameters of our docstrings as a list: lines `name : meaning` of a docstring become entries of one."""

import re
from typing import Any

import griffe

_PARAMETER = re.compile(r"(?:^|(?<=\n))(\w+) : ")


class ParameterLists(griffe.Extension):
    """Rewrites docstrings while the site is built."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object once it is loaded."""
        del kwargs
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Return a docstring whose parameter lines are entries of a list."""
    first = _PARAMETER.search(text)
    if first is None:
        return text
    listed = _PARAMETER.sub(r"- `\1`: ", text[first.start() :])
    listed = re.sub(r"\n+(?=Errors: )", "\n\n", listed)  # a paragraph after the list
    return f"{text[: first.start()].rstrip()}\n\n{listed}"
