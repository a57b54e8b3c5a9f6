"""The columns of the contract: `bytes` fields whose comment in the `.proto` files begins with type and length."""

import re
from pathlib import Path
from typing import NamedTuple

PROTOS = Path(__file__).resolve().parents[2] / "protos/trimtab/v1"
DTYPES = {"int32": "<i4", "int64": "<i8", "uint8": "u1", "double": "<f8", "utf8": "u1"}
"""The numpy type of an element of each type; of "utf8", a byte."""
_MESSAGE = re.compile(r"message (\w+) \{")
_FIELD = re.compile(r"  ((?:optional |repeated )?[\w.]+|map<.*>) (\w+) = \d+\W")
_COLUMN = re.compile(
    r"(?P<type>int32|int64|uint8|double|utf8)\[(?P<length>[^]]+)\](?P<ascending>, ascending)?: "
    r"(?P<element>.+?)(?:; (?P<sentinel>0|NaN) = (?P<meaning>.+?))?\. "
    r"(?:REQUIRED|OPTIONAL: empty = (?P<empty>.+?))\."
)


class Column(NamedTuple):
    """One column. sentinel : "0 = none" or "NaN = none", "" = no element means none; empty : what an empty column
    means, "" = it is required."""

    message: str
    field: str
    type: str
    length: str
    is_ascending: bool
    element: str
    sentinel: str
    empty: str

    @property
    def row(self) -> list[str]:
        """The row of the table in `protos/README.md`."""
        length = f"{self.length}, ascending" if self.is_ascending else self.length
        name = f"`{self.message}.{self.field}`"
        return [name, self.type, length, self.element, self.sentinel or "-", self.empty or "REQUIRED"]


def bytes_fields(file: str) -> dict[tuple[str, str], str]:
    """Return the comment of each `bytes` field of a file, by message and field."""
    return {(message, field): comment for (message, field, kind), comment in fields(file).items() if kind == "bytes"}


def fields(file: str) -> dict[tuple[str, str, str], str]:
    """Return the comment of each field of a file, by message, field, and its type with `optional` or `repeated`."""
    message, comment, found = "", list[str](), {}
    for line in (PROTOS / file).read_text(encoding="utf-8").splitlines():
        if begun := _MESSAGE.match(line):
            message = begun[1]
        if field := _FIELD.match(line):
            found[message, field[2], field[1]] = " ".join(comment)
        comment = [*comment, line.strip(" /")] if line.startswith("  //") else []
    return found


def columns(file: str) -> list[Column]:
    """Return the columns of a file, in its order."""
    found = []
    for (message, field), comment in bytes_fields(file).items():
        if match := _COLUMN.match(comment):
            sentinel = f"{match['sentinel']} = {match['meaning']}" if match["sentinel"] else ""
            found.append(
                Column(
                    message, field, match["type"], match["length"], bool(match["ascending"]), match["element"],
                    sentinel, match["empty"] or "",
                )
            )  # fmt: skip
    return found
