"""A Dask cluster as a pool of processes for sweeps (extra `dask`).

Decides when a cluster can be used: its scheduler answers, it has workers, and each of them has this version of trimtab,
to give the same results as this machine. Never decides what runs where: Dask does. Raises ScenarioError.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final, cast

from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.common.rpc.extras import require_extra

TIMEOUT_S: Final = 15.0
"""Maximum time for a scheduler to answer."""


@contextmanager
def dask_pool(address: str) -> Iterator[Executor]:
    """Connect to the scheduler at an address such as "tcp://10.0.0.1:8786"; yield its workers as an executor.

    Errors: also MissingExtraError.
    """
    require_extra("dask", "--dask")
    from distributed import Client, KilledWorker

    try:
        client = Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ScenarioError(
            f"--dask {address}: no Dask scheduler answers there: {reason}; give its address, such as tcp://HOST:8786"
        ) from None
    with client:
        _check_workers(address, client)
        try:
            yield cast(Executor, client.get_executor(pure=False))
        except KilledWorker as error:
            raise ScenarioError(f"--dask {address}: workers end while they simulate: {error}") from None


def _check_workers(address: str, client: Any) -> None:
    """Refuse a cluster without workers, or with a worker whose results might differ. Raises ScenarioError."""

    # An inner function is sent by value: a worker without trimtab can run it, too.
    def installed_version() -> str:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("trimtab")
        except PackageNotFoundError:
            return ""

    wanted = version("trimtab")
    found = client.run(installed_version)
    if not found:
        remedy = f"start some with: dask worker {address} --nthreads 1"
        raise ScenarioError(f"--dask {address}: this scheduler has no workers; {remedy}")
    for worker, theirs in sorted(found.items()):
        if theirs != wanted:
            has = f"has trimtab {theirs}" if theirs else "has no trimtab"
            raise ScenarioError(f"--dask {address}: worker {worker} {has}; install version {wanted} there, as here")
