"""Short retries of single calls to the cluster and the cloud.

Retries transient errors twice within two seconds; longer waiting is left to the steps of a task.
"""

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt

from actuator.cloud.provider import CloudError, CloudRefusedError
from actuator.kube.cluster import ClusterError, NotFoundError, RefusedError, TooManyRequestsError
from clients.transport.backoff import Backoff

T = TypeVar("T")

FINAL = (NotFoundError, RefusedError, TooManyRequestsError, CloudRefusedError)


def may_pass(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    return isinstance(error, ClusterError | CloudError) and not isinstance(error, FINAL)


def persistent(call: Callable[[], T], backoff: Backoff) -> T:
    """Make a call up to three times. Raises the last error."""
    retrying = Retrying(
        retry=retry_if_exception(may_pass),
        stop=stop_after_attempt(3),
        wait=backoff.pause_s,
        reraise=True,
    )
    return retrying(call)
