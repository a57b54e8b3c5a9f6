"""The start and the end of a command: loading its code, and writing its output. Restricts gRPC to TLS 1.3 and numpy to
small pages, and reports in one line instead of a traceback: Ctrl-C at any time, a full disk under standard output.
Imports only the standard library and the list of extras, so that hardly anything runs before it. Never decides what the
command does.
"""

import errno
import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

from trimtab.common.rpc.extras import MissingExtraError, extra_of, require_extra

INTERRUPTED, FAILED = 130, 1
CIPHERS_VARIABLE = "GRPC_SSL_CIPHER_SUITES"
TLS_1_3_ALONE = "ECDHE-PSK-CHACHA20-POLY1305"
"""Cipher suites of TLS 1.2 and older. gRPC's Python API has no option for the lowest version, but this suite needs a
pre-shared key, which gRPC does not have: a handshake below TLS 1.3 finds no suite. The suites of TLS 1.3 are not
affected."""
HUGE_PAGES_VARIABLE = "NUMPY_MADVISE_HUGEPAGE"
"""Whether numpy asks the kernel for huge pages for arrays of 4 MB and more. On a machine that has run for a while,
finding and clearing one takes up to 10 ms, and a planner allocates such arrays in each loop; with small pages the CPU
time of a loop over 5,000 nodes falls by a quarter, and varies less."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def run_command(program: str, place: str, extra: str) -> None:
    """Load a function, given as "module:name", and call it. extra : what has to be installed for it."""
    module, _, name = place.partition(":")
    # Both are read once, when gRPC and numpy are loaded. Users who need TLS 1.2 set their own suites.
    os.environ.setdefault(CIPHERS_VARIABLE, TLS_1_3_ALONE)
    os.environ.setdefault(HUGE_PAGES_VARIABLE, "0")
    _open_closed_streams()
    try:
        require_extra(extra, program)
        getattr(import_module(module), name)()
        sys.stdout.flush()
    except MissingExtraError as error:
        _leave(str(error), FAILED)
    except ModuleNotFoundError as error:
        missing = extra_of(error.name or "")
        if missing is None:
            raise
        _leave(f"{program}: this needs the extra {missing} ({error.name}): pip install 'trimtab[{missing}]'", FAILED)
    except KeyboardInterrupt:
        _leave(f"{program}: interrupted", INTERRUPTED)
    except BrokenPipeError:
        end_without_reader()
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _leave(f"{program}: the output cannot be written: {error.strerror}", FAILED)


def end_without_reader() -> NoReturn:
    """End the process as kubectl and most programs end whose output nobody reads any more: silently, by SIGPIPE."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)
    _leave("", FAILED)  # the signal is blocked


def _open_closed_streams() -> None:
    """Connect standard streams that the caller has closed, as a shell does with `>&-`, to the null device. Otherwise
    Python has None in their place, and the next file that is opened gets their number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _leave(message: str, code: int) -> NoReturn:
    """Print a message and end the process; nothing more is written to standard output, not even at exit."""
    if message:
        sys.stderr.write(message + "\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
