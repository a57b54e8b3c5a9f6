"""The command `trimtab`.

Decides how a person asks and how the answer is shown; never decides anything about a cluster. The answer goes to
stdout and nothing else does; progress, notes and errors go to stderr. Exit codes: 0 done, 1 failed, 2 bad input.
"""

from clients.transport.entry import run_command

__all__ = ["kubectl_plugin", "main"]


def main() -> None:
    """Run the command line; every failure is one message on stderr, never a traceback."""
    run_command("trimtab", "clients.cli:run_app")


def kubectl_plugin() -> None:
    """Run the command line as `kubectl trimtab …`: kubectl finds the executable `kubectl-trimtab` by its name."""
    run_command("kubectl trimtab", "clients.cli:run_plugin")


def run_app() -> None:
    """Run the command that was asked for."""
    _run("trimtab")


def run_plugin() -> None:
    """Run the command that kubectl was asked for."""
    _run("kubectl trimtab")


def _run(program: str) -> None:
    """Load the commands, and run the one that was asked for."""
    from clients.cli.commands import app
    from clients.cli.failures import explained

    with explained():
        app(prog_name=program)
