"""How long gangs wait until they are whole: from the creation of a gang's first pod until as many of its pods have a
node as its minimum.

Decides what counts: each gang once, when it is whole for the first time; one that is not whole yet has waited up to
now. A gang whose pods all went before it was whole does not count. Units: seconds, Unix time.
"""

from collections.abc import Mapping
from typing import Any, Final

from trimtab.clients.simulation.cluster.pod_groups import group_of, minimum
from trimtab.clients.simulation.waiting_times import percentiles

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
