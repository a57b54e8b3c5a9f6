"""The command `trimtab`.

Decides how a person asks and how the answer is shown; never decides anything about a cluster. The answer goes to
stdout and nothing else does; progress, notes and errors go to stderr. Exit codes: 0 done, 1 failed, 2 bad input.
"""

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; every failure is one message on stderr, never a traceback."""
    from clients.cli.commands import app
    from clients.cli.failures import explained

    try:
        with explained():
            app(prog_name="trimtab")
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has seen enough. Nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
