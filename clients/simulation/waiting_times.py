"""Percentiles of times that things have waited. Units: seconds.

A gang counts once, when as many of its pods have a node as its minimum for the first time, from the creation of its
first pod; one that is not whole yet has waited up to now, and one whose pods all went before does not count. Units:
seconds, Unix time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.clients.simulation.cluster.objects import condition
from trimtab.clients.simulation.cluster.pod_groups import group_of, minimum

PERCENTILES: Final = (50, 90, 99)


def percentiles(waits: Iterable[float]) -> dict[str, float]:
    """Return the percentiles, "p50" and so on, and the longest time, "max"; all 0 if nothing has waited."""
    ordered = sorted(waits)
    return {f"p{share}": _percentile(ordered, share) for share in PERCENTILES} | {
        "max": round(ordered[-1], 3) if ordered else 0.0
    }


def _percentile(sorted_values: list[float], share: int) -> float:
    """Return a percentile; always one of the measured values."""
    if not sorted_values:
        return 0.0
    return round(float(np.percentile(sorted_values, share, method="inverted_cdf")), 3)


MOST_ENTRIES: Final = 2000
"""Maximum number of gangs listed in a result."""


class GangTimes:
    """The gangs of one simulation. entries : gangs that became whole, in order of time: "gang" (namespace/name),
    "since", "whole" (Unix seconds)."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._minimum: dict[str, int] = {}
        # Uids of the pods of each group, and whether they have a node; the group by key of a pod.
        self._pods: dict[str, dict[str, bool]] = {}
        self._of_pod: dict[str, tuple[str, str]] = {}
        self._since_s: dict[str, float] = {}
        self._whole: set[str] = set()
        self._waited: list[float] = []

    def begin_here(self) -> None:
        """Record that gangs now whole were so before, after an unknown time."""
        self._waited.clear()
        self.entries.clear()

    def add(self, things: Mapping[str, Any], now_s: float) -> None:
        """Record the writes of a transaction."""
        touched: dict[str, None] = {}
        for key, value in things.items():
            if key.startswith("PodGroup/"):
                touched[self._group(key.removeprefix("PodGroup/"), value)] = None
            elif key.startswith("Pod/") and (key in self._of_pod or (value and group_of(value[0]["spec"]))):
                touched |= dict.fromkeys(self._pod(key, value, now_s))
        for group in touched:
            least = self._minimum.get(group, 0)
            if least > 0 and group not in self._whole and sum(self._pods.get(group, {}).values()) >= least:
                self._whole.add(group)
                self._waited.append(round(now_s - self._since_s[group], 3))
                if len(self.entries) < MOST_ENTRIES:
                    self.entries.append({"gang": group, "since": self._since_s[group], "whole": now_s})

    def summary(self, now_s: float) -> dict[str, Any]:
        """Return the figures so far."""
        open_ = [one for one, least in self._minimum.items() if least > 0 and one not in self._whole]
        waiting = [now_s - self._since_s[one] for one in open_ if one in self._since_s]
        waits = [*self._waited, *waiting]
        return {
            "gangsWhole": len(self._waited),
            "gangsNotWholeAtEnd": len(waiting),
            "timeToFullGangS": percentiles(waits),
        }

    def _group(self, group: str, value: Any) -> str:
        """Record a PodGroup, or that it is gone."""
        if value is not None:
            self._minimum[group] = minimum(value[0])
            return group
        self._minimum.pop(group, None)
        self._whole.discard(group)
        if not self._pods.get(group):
            self._since_s.pop(group, None)
        return group

    def _pod(self, key: str, value: Any, now_s: float) -> list[str]:
        """Record a pod of a group; return its groups, before and now."""
        before = self._of_pod.pop(key, None)
        if before is not None:
            pods = self._pods[before[0]]
            del pods[before[1]]
            if not pods and value is None:
                del self._pods[before[0]]
                self._since_s.pop(before[0], None)
        if value is None:
            return [before[0]] if before else []
        item = value[0]
        group = f"{key.split('/')[1]}/{group_of(item['spec'])}"
        self._of_pod[key] = group, item["metadata"]["uid"]
        self._pods.setdefault(group, {})[item["metadata"]["uid"]] = bool(item["spec"].get("nodeName"))
        self._since_s.setdefault(group, now_s)
        return [group] if before is None else [before[0], group]


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
