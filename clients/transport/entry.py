"""The first and the last moment of a command: while its code is loaded, and when its output is written.

Decides what is told in one line in place of a traceback: Ctrl-C at any time, a full disk under standard output. Imports
nothing but the standard library, so that hardly anything comes before it. Never decides what the command does.
"""

import errno
import os
import sys
from importlib import import_module

INTERRUPTED, FAILED = 130, 1
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def run_command(program: str, place: str) -> None:
    """Load a function, given as "module:name", and call it."""
    module, _, name = place.partition(":")
    try:
        getattr(import_module(module), name)()
        sys.stdout.flush()
    except KeyboardInterrupt:
        _leave(f"{program}: interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read us has seen enough.
        _leave("", FAILED)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _leave(f"{program}: the output cannot be written: {error.strerror}", FAILED)


def _leave(message: str, code: int) -> None:
    """Print a message and end the process; nothing more is written to standard output, not even at exit."""
    if message:
        sys.stderr.write(message + "\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
