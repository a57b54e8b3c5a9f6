"""Expected failures of a command: one message on stderr, then an exit code.

2 = the input is at fault, and the message names the place; 1 = anything else. Bugs are not hidden: an unexpected
exception keeps its traceback. A decision that ended with an error of the planner has no answer: whatever the command
printed, it exits with 1 and says which.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from trimtab.common.documents.output import visible
from trimtab.common.kubernetes.errors import ConfigurationError, KubernetesError
from trimtab.common.kubernetes.object_errors import InvalidInputError as UnreadableError
from trimtab.common.rpc.addresses import AddressError
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.extras import MissingExtraError

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class UsageError(Exception):
    """The user's input cannot be used; the message names the place and the remedy."""


class FailedError(Exception):
    """The command failed although the input was fine."""


_FAILED_DECISIONS: Final[ContextVar[set[str] | None]] = ContextVar("failed_decisions", default=None)


def note_failed(decisions: Iterable[str]) -> None:
    """Note decisions that ended with an error of the planner, for the exit code of the command that is running."""
    noted = _FAILED_DECISIONS.get()
    if noted is not None:
        noted.update(decisions)


@contextmanager
def explained() -> Iterator[None]:
    """Turn expected failures into a message and an exit code."""
    failed: set[str] = set()
    token = _FAILED_DECISIONS.set(failed)
    try:
        with _expected():
            yield
    except SystemExit as leaving:
        if leaving.code or not failed:
            raise
    finally:
        _FAILED_DECISIONS.reset(token)
    if failed:
        _leave(f"the planner failed to decide on {', '.join(sorted(failed))}; nothing printed answers it", FAILED)


@contextmanager
def _expected() -> Iterator[None]:
    try:
        yield
    except (UsageError, UnreadableError, AddressError) as error:
        _leave(str(error), BAD_INPUT)
    except TrimtabError as error:
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


@contextmanager
def cluster_failures() -> Iterator[None]:
    """Turn failures of a cluster into those of the command line."""
    try:
        yield
    except ConfigurationError as error:
        raise UsageError(str(error)) from error
    except KubernetesError as error:
        raise FailedError(str(error)) from error
