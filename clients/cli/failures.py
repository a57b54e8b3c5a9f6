"""Expected failures of a command: one message on stderr, then an exit code.

2 = the input is at fault, and the message names the place; 1 = anything else. Bugs are not hidden: an unexpected
exception keeps its traceback.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.clients.documents.output import visible
from trimtab.clients.kubernetes.object_errors import InvalidInputError as UnreadableError
from trimtab.clients.rpc.addresses import AddressError
from trimtab.clients.rpc.errors import ServiceError, TrimtabError
from trimtab.clients.rpc.extras import MissingExtraError

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class UsageError(Exception):
    """The user's input cannot be used; the message names the place and the remedy."""


class FailedError(Exception):
    """The command failed although the input was fine."""


@contextmanager
def explained() -> Iterator[None]:
    """Turn expected failures into a message and an exit code."""
    try:
        yield
    except (UsageError, UnreadableError, AddressError) as error:
        _leave(str(error), BAD_INPUT)
    except (TrimtabError, ServiceError) as error:
        at_fault = error.code.name in {"INVALID_ARGUMENT", "UNIMPLEMENTED", "FAILED_PRECONDITION", "NOT_FOUND"}
        _leave(f"{error.message} ({error.reason_name})", BAD_INPUT if at_fault else FAILED)
    except (FailedError, MissingExtraError) as error:
        _leave(str(error), FAILED)
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)


def _leave(message: str, code: int) -> None:
    """Print the message and end the process."""
    sys.stderr.write(f"trimtab: {visible(message)}\n")
    sys.exit(code)
