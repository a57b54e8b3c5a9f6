"""Command lines in the process of the test."""

import contextlib
import io
import sys
from typing import Any

from trimtab.clients.cli import main


def trimtab(*arguments: str) -> dict[str, Any]:
    """Run a command line in this process."""
    sys.argv = ["trimtab", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}
