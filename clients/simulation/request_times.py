"""How long ProvisioningRequests wait: from the creation of each until it is provisioned.

Decides what counts: each request once. One that is neither provisioned nor failed has waited up to now; one that has
failed counts as failed, without a time. Units: seconds, Unix time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from trimtab.clients.simulation.cluster.objects import condition
from trimtab.clients.simulation.waiting_times import percentiles

MOST_ENTRIES: Final = 2000
"""Maximum number of requests listed in a result."""


class OpenRequest(NamedTuple):
    """A request that is neither provisioned nor failed. since_s : its creation; valid_s : how long room is sought for
    it, None = it does not say."""

    since_s: float
    valid_s: int | None


class RequestTimes:
    """The ProvisioningRequests of one simulation. entries : those that have been answered, in order of time: "request"
    (namespace/name), "since", "answered" (Unix seconds), "provisioned" (whether it was; else it has failed)."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        # Requests provisioned (True) or failed since they were last taken, by "namespace/name".
        self._answered: dict[str, bool] = {}
        self._open: dict[str, OpenRequest] = {}
        self._closed: set[str] = set()
        self._revoked: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._waited: list[float] = []

    @property
    def open(self) -> Iterable[OpenRequest]:
        """Return the requests that wait."""
        return self._open.values()

    def add(self, things: Mapping[str, Any], now_s: float) -> None:
        """Record the writes of a transaction."""
        for key, value in things.items():
            if key.startswith("ProvisioningRequest/"):
                self._request(key.removeprefix("ProvisioningRequest/"), value[0] if value else None, now_s)

    def take_answered(self) -> Mapping[str, bool]:
        """Return the requests answered since the last call: whether each was provisioned; else it has failed."""
        found, self._answered = self._answered, {}
        return found

    def summary(self, now_s: float) -> dict[str, Any]:
        """Return the figures so far."""
        waits = [*self._waited, *(now_s - one.since_s for one in self._open.values())]
        return {
            "requests": self._counts["created"],
            "requestsProvisioned": len(self._waited),
            "requestsFailed": self._counts["failed"],
            "requestsRevoked": self._counts["revoked"],
            "requestsWaitingAtEnd": len(self._open),
            "timeToProvisionedS": percentiles(waits),
        }

    def _request(self, name: str, item: Mapping[str, Any] | None, now_s: float) -> None:
        """Record a request, or that it is gone."""
        if item is None:
            self._open.pop(name, None)
            self._closed.discard(name)
            self._revoked.discard(name)
            return
        if name not in self._open and name not in self._closed:
            self._counts["created"] += 1
            valid = (item["spec"].get("parameters") or {}).get("ValidUntilSeconds")
            self._open[name] = OpenRequest(now_s, int(valid) if valid else None)
        is_provisioned, has_failed = condition(item, "Provisioned"), condition(item, "Failed")
        if name in self._open and (is_provisioned or has_failed):
            self._close(name, is_provisioned, now_s)
        if condition(item, "CapacityRevoked") and name not in self._revoked:
            self._revoked.add(name)
            self._counts["revoked"] += 1

    def _close(self, name: str, is_provisioned: bool, now_s: float) -> None:
        since_s = self._open.pop(name).since_s
        self._closed.add(name)
        self._answered[name] = is_provisioned
        if is_provisioned:
            self._waited.append(round(now_s - since_s, 3))
        else:
            self._counts["failed"] += 1
        if len(self.entries) < MOST_ENTRIES:
            self.entries.append({"request": name, "since": since_s, "answered": now_s, "provisioned": is_provisioned})
