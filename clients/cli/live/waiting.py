"""Waiting for what a loop needs: the first list of the cluster, and a planner that is not there yet: before it serves,
it compiles its kernels, which takes a while at its first start. Unit: seconds.
"""

import time
from collections.abc import Callable
from typing import Final

import grpc
import structlog
from rich.progress import BarColumn, MofNCompleteColumn

from trimtab.clients.cli.failures import FailedError
from trimtab.clients.cli.terminal import progress
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.health import Health
from trimtab.common.rpc.errors import TrimtabError

LONGEST_S: Final = 180.0
"""Afterwards the loop begins, whose rounds fail and say why."""
EVERY_S: Final = 1.0
LIST_TIMEOUT_S: Final = 600.0
"""Longest time for the first list of a cluster; the largest clusters take a minute."""
log = structlog.get_logger("loop")


def await_planner(
    address: str, ask: Callable[[], object], health: Health, longest_s: float = LONGEST_S, every_s: float = EVERY_S
) -> None:
    """Wait until a planner answers, at most `longest_s`; log once that it is awaited, and that it has come. ask : calls
    it, raises TrimtabError. An error other than UNAVAILABLE is left to the loop.
    """
    begun_s = time.monotonic()
    is_told = False
    while True:
        try:
            ask()
        except TrimtabError as error:
            waited_s = time.monotonic() - begun_s
            if error.code is not grpc.StatusCode.UNAVAILABLE or waited_s >= longest_s:
                return
            if not is_told:
                log.info("waiting_for_planner", address=address, text=f"waiting for the planner at {address} …")
            is_told, health.not_ready = True, f"the planner at {address} does not answer yet: {error}"
            health.active()
            time.sleep(min(every_s, longest_s - waited_s))
            continue
        if is_told:
            log.info("planner_ready", address=address, text=f"the planner at {address} is ready")
        return


def wait_until_shown_listed(cluster: LiveCluster) -> None:
    """Wait until every kind is listed, and show on a terminal how far that is. Errors: FailedError."""
    total, end_s = len(cluster.missing), time.monotonic() + LIST_TIMEOUT_S
    with progress("listing the cluster …", BarColumn(), MofNCompleteColumn(), total=total) as show:
        while not cluster.wait_until_listed(0.2):
            troubles = "; ".join(f"{kind}: {why}" for kind, why in sorted(cluster.troubles.items())[:1])
            show(completed=total - len(cluster.missing), description=f"listing the cluster … {troubles}")
            if time.monotonic() > end_s:
                raise FailedError(f"the cluster could not be listed in {LIST_TIMEOUT_S:.0f} s: {cluster.troubles}")


def wait_until_listed(cluster: LiveCluster, health: Health) -> None:
    """Wait for the first list, and log what it waits for."""
    for _ in range(int(LIST_TIMEOUT_S)):
        if cluster.wait_until_listed(1.0):
            health.not_ready = "no round has succeeded yet"
            return
        health.active()
        if cluster.troubles:
            health.not_ready = str(cluster.troubles)
            log.warning("listing", missing=cluster.missing, troubles=cluster.troubles)
    raise FailedError(f"the cluster could not be listed in {LIST_TIMEOUT_S:.0f} s: {cluster.troubles}")
