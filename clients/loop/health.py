"""Health over HTTP: `/healthz` is 200 while the loop is active, `/readyz` while rounds succeed or another loop leads.

Otherwise each is 503 with the reason. A loop that has not finished a round for `max_inactivity_s` is stuck.
"""

import time
from collections.abc import Callable

from trimtab.common.rpc.addresses import split_address
from trimtab.common.rpc.http_port import HttpAnswer, HttpRequest, Page, plain, serve_http
from trimtab.common.rpc.port_security import PortSecurity


class Health:
    """The content of the endpoints. `clock` is monotonic, in seconds."""

    def __init__(self, max_inactivity_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s, self._clock = max_inactivity_s, clock
        self._active_s = clock()
        self.not_ready = "the cluster has not been listed yet"

    def active(self) -> None:
        """Note that a round of the loop has ended, successfully or not."""
        self._active_s = self._clock()

    @property
    def stuck(self) -> str:
        """Return why the loop counts as stuck; "" = it does not."""
        idle_s = self._clock() - self._active_s
        return f"no round has ended for {idle_s:.0f} s" if idle_s > self._limit_s else ""


class HealthServer:
    """The endpoints. Use as a context manager."""

    def __init__(self, address: str, health: Health, security: PortSecurity | None = None) -> None:
        """Listen on "host:port", port 0 = any. Errors: OSError, ValueError as of `PortSecurity`."""
        security = security or PortSecurity()

        host, port = split_address(address)
        security.check_exposure("--health-address", host)
        self._http = serve_http(host, port, security.http_context(), _page(health))
        self.address = f"{host}:{self._http.server_port}"

    def __enter__(self) -> "HealthServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


def _page(health: Health) -> Page:
    def page(request: HttpRequest) -> HttpAnswer:
        checks = {"/healthz": health.stuck, "/livez": health.stuck, "/readyz": health.not_ready}
        trouble = checks.get(request.path)
        if trouble is None:
            return plain("404 Not Found", "not found")
        return plain("503 Service Unavailable", trouble) if trouble else plain("200 OK", "ok")

    return page
