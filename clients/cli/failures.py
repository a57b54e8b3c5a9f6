"""What can go wrong on the command line, and how it is told: one message on stderr, then an exit code.

2 = the input is at fault and the message says where; 1 = anything else. Bugs are not hidden: an exception that nobody
expected keeps its traceback.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from clients.kubernetes_objects.errors import InputError as UnreadableError
from clients.transport.errors import ServiceError, TrimtabError

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class InputError(Exception):
    """Something that the user gave cannot be used; the text names it and says what would do."""


class FailedError(Exception):
    """The work could not be done although the input was fine."""


@contextmanager
def explained() -> Iterator[None]:
    """Turn the failures that are expected into a message and an exit code."""
    try:
        yield
    except (InputError, UnreadableError) as error:
        _leave(str(error), BAD_INPUT)
    except (TrimtabError, ServiceError) as error:
        at_fault = error.code.name in {"INVALID_ARGUMENT", "UNIMPLEMENTED", "FAILED_PRECONDITION", "NOT_FOUND"}
        _leave(f"{error.message} ({error.reason_name})", BAD_INPUT if at_fault else FAILED)
    except FailedError as error:
        _leave(str(error), FAILED)
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)


def _leave(message: str, code: int) -> None:
    """Print the message and end the process."""
    sys.stderr.write(f"trimtab: {message}\n")
    sys.exit(code)
