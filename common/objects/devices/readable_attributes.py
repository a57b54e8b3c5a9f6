"""Which attributes of devices an expression or a constraint of the cluster can read. Others, such as a device's uuid or
its address, are left out of snapshots, so that devices which no claim can tell apart are equal.

Decides on the texts alone, and on the safe side: an attribute is read if its id occurs anywhere in a text; and all are
read as soon as an expression uses a device's attributes in another way than by a domain and an id that it spells out.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache

_BY_ID = re.compile(
    r"""attributes\s*\[\s*(?:"[^"\\]*"|'[^'\\]*')\s*\]\s*"""
    r"""(?:\.\s*\??\s*[A-Za-z_]\w*(?![\w]|\s*\()|\[\s*\??\s*(?:"[^"\\]*"|'[^'\\]*')\s*\])"""
)
"""`device.attributes["domain"].id`, also with an index or an optional field; a function of the map reads all of it."""
_PRESENT = re.compile(
    r"""(?:"[^"\\]*"|'[^'\\]*')\s*in\s+[A-Za-z_]\w*\s*\.\s*attributes\s*\[\s*(?:"[^"\\]*"|'[^'\\]*')\s*\](?!\s*[.\[])"""
)
"""`"id" in device.attributes["domain"]`."""
_ANY = re.compile(r"\battributes\b")


def reads_any_attribute(expression: str) -> bool:
    """Return whether an expression may read attributes whose ids it does not spell out."""
    if "\\" in expression:
        return True
    return _ANY.search(_BY_ID.sub(" ", _PRESENT.sub(" ", expression))) is not None


def attribute_filter(expressions: Iterable[str], names: Iterable[str]) -> Callable[[str], bool] | None:
    """Return the function that tells whether an attribute, by its name, is read; None = all are. names : attributes
    of constraints.
    """
    texts = list(expressions)
    if any(map(reads_any_attribute, texts)):
        return None
    joined = "\n".join((*texts, *names))

    @cache
    def is_read(name: str) -> bool:
        return name.rpartition("/")[2] in joined

    return is_read
