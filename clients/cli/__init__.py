"""The command `trimtab`.

Decides how a person asks and how the answer is shown; never decides anything about a cluster. The answer goes to
stdout and nothing else does; progress, notes and errors go to stderr. Exit codes: 0 done, 1 failed, 2 bad input.
"""

from clients.transport.entry import run_command

__all__ = ["main"]


def main() -> None:
    """Run the command line; every failure is one message on stderr, never a traceback."""
    run_command("trimtab", "clients.cli:run_app")


def run_app() -> None:
    """Load the commands, and run the one that was asked for."""
    from clients.cli.commands import app
    from clients.cli.failures import explained

    with explained():
        app(prog_name="trimtab")
