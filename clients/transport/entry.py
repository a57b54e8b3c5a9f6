"""The first and the last moment of a command: while its code is loaded, and when its output is written.

Decides that gRPC speaks TLS 1.3 alone, and what is told in one line in place of a traceback: Ctrl-C at any time, a full
disk under standard output. Imports nothing but the standard library, so that hardly anything comes before it. Never
decides what the command does.
"""

import errno
import os
import sys
from importlib import import_module

INTERRUPTED, FAILED = 130, 1
CIPHERS_VARIABLE = "GRPC_SSL_CIPHER_SUITES"
TLS_1_3_ALONE = "ECDHE-PSK-CHACHA20-POLY1305"
"""Cipher suites of TLS 1.2 and older. gRPC's Python API has no lowest version, but this one suite needs a key that both
sides share, and gRPC has none: a handshake below TLS 1.3 finds no suite. Those of TLS 1.3 are not concerned."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def run_command(program: str, place: str) -> None:
    """Load a function, given as "module:name", and call it."""
    module, _, name = place.partition(":")
    # gRPC reads it once, when it is loaded. Whoever needs TLS 1.2 sets suites of their own.
    os.environ.setdefault(CIPHERS_VARIABLE, TLS_1_3_ALONE)
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
