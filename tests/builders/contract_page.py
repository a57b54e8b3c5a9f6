"""The tables of `protos/README.md`, the contract's prose."""

from pathlib import Path
from typing import NamedTuple

from grpc import StatusCode

from trimtab.v1.reason_pb2 import ErrorReason

PAGE = (Path(__file__).resolve().parents[2] / "protos/README.md").read_text(encoding="utf-8")


class ErrorRow(NamedTuple):
    """One row of the table of errors. `reason` is an `ErrorReason.Code`."""

    condition: str
    code: StatusCode
    reason: int
    remedy: str


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, by row."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def errors() -> list[ErrorRow]:
    """Return the table of errors. Raises KeyError and ValueError for names that gRPC or the contract does not have."""
    return [
        ErrorRow(condition, StatusCode[code.strip("`")], ErrorReason.Code.Value(reason.strip("`")), remedy)
        for condition, code, reason, remedy in table("Errors")
    ]
