"""Errors of the Python interface."""

from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.rpc.addresses import AddressError
from trimtab.common.rpc.errors import ServiceError, TrimtabError

_AT_FAULT = ("INVALID_ARGUMENT", "UNIMPLEMENTED", "FAILED_PRECONDITION", "NOT_FOUND")


class InputError(ValueError):
    """The input cannot be used; the message names the place and the remedy."""


class PlannerError(RuntimeError):
    """The planner failed, or cannot be reached, although the input was fine."""


@contextmanager
def named_errors() -> Iterator[None]:
    """Raise every expected failure as one of the two errors above."""
    try:
        yield
    except (UsageError, InvalidInputError, AddressError) as error:
        raise InputError(str(error)) from error
    except (TrimtabError, ServiceError) as error:
        kind = InputError if error.code.name in _AT_FAULT else PlannerError
        raise kind(f"{error.message} ({error.reason_name})") from error
    except FailedError as error:
        raise PlannerError(str(error)) from error
