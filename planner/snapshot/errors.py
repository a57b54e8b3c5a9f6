"""Why a snapshot or a delta is refused.

Decides the wording alone: every error names table, row, field, and what would be right. Rows are counted from 0, as the
message has them.
"""

WHOLE_TABLE = -1
"""As a row: the problem is not one row's."""


class SnapshotError(ValueError):
    """A table breaks its contract. `row` is WHOLE_TABLE when no single row is to blame; `field` "" likewise."""

    def __init__(self, table: str, row: int, field: str, problem: str) -> None:
        place = table if row == WHOLE_TABLE else f"{table}[{row}]"
        super().__init__(f"{place}{'.' if field else ''}{field}: {problem}")
        self.table = table
        self.row = row
        self.field = field
        self.problem = problem


class SnapshotMalformedError(ValueError):
    """The bytes are no message of the type expected."""
