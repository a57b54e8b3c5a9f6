"""The command `trimtab`.

Decides how input is given and how the answer is shown; never decides anything about a cluster. Only the answer goes to
stdout; progress, notes and errors go to stderr. Exit codes: 0 done, 1 failed, 2 bad input.
"""

import gc

from trimtab.common.rpc.collection import collection_paused
from trimtab.common.rpc.entry import run_command

__all__ = ["kubectl_plugin", "main"]


def main() -> None:
    """Run the command line; every failure is one message on stderr, never a traceback."""
    run_command("trimtab", "trimtab.clients.cli:run_app", "cli")


def kubectl_plugin() -> None:
    """Run the command line as `kubectl trimtab …`: kubectl finds the executable `kubectl-trimtab` by its name."""
    run_command("kubectl trimtab", "trimtab.clients.cli:run_plugin", "cli")


def run_app() -> None:
    """Run the command of the arguments."""
    _run("trimtab")


def run_plugin() -> None:
    """Run the command of kubectl's arguments."""
    _run("kubectl trimtab")


def _run(program: str) -> None:
    """Load the commands, and run the requested one."""
    # Modules live as long as the process: visiting them while they load takes a fifth of the start.
    with collection_paused():
        from trimtab.clients.cli.commands import app
        from trimtab.clients.cli.failures import explained
    gc.freeze()

    with explained():
        app(prog_name=program)
