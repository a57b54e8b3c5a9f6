"""CSV of price files and files of offerings: the lines with their numbers. The first line names the columns, each once.
Errors name file and line.
"""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from trimtab.clients.cli.failures import UsageError


def csv_rows(
    path: Path, text: str, column_problem: Callable[[list[str]], str], *, may_be_short: bool = False
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield lines with their numbers, values without blanks around them. column_problem : returns what is wrong with
    the names of the columns, "" = nothing; may_be_short : a line may lack its last values, which are then "".

    Errors: UsageError.
    """
    reader = csv.DictReader(text.splitlines(), restkey="", strict=True)
    try:
        columns = list(reader.fieldnames or ())
        problem = column_problem(columns) or _repeated(columns)
        if problem:
            raise UsageError(f"{path}: line 1: {problem}")
        for row in reader:
            is_short = None in row.values() and not may_be_short
            if "" in row or is_short:
                extent = "more" if "" in row else "fewer"
                raise UsageError(f"{path}: line {reader.line_num}: it has {extent} values than the first line columns")
            yield reader.line_num, {key: (value or "").strip() for key, value in row.items()}
    except csv.Error as error:
        raise UsageError(f"{path}: line {reader.reader.line_num}: this is not CSV: {error}") from None


def _repeated(columns: list[str]) -> str:
    found = [name for name in columns if columns.count(name) > 1]
    return f"column {found[0]!r} is given twice" if found else ""
