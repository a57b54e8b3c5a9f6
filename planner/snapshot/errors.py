"""Errors for snapshots and deltas that are refused.

Decides only the wording: every error names table, row, field, and the remedy. Rows count from 0, as in the
message.
"""

WHOLE_TABLE = -1
"""As a row: the problem concerns no single row."""


class SnapshotError(ValueError):
    """A table breaks its contract. `row` is WHOLE_TABLE, or `field` "", if no single one is at fault."""

    def __init__(self, table: str, row: int, field: str, problem: str) -> None:
        place = table if row == WHOLE_TABLE else f"{table}[{row}]"
        super().__init__(f"{place}{'.' if field else ''}{field}: {problem}")
        self.table = table
        self.row = row
        self.field = field
        self.problem = problem


class SnapshotMalformedError(ValueError):
    """The bytes are not a message of the expected type."""
