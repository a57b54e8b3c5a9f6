"""What an API server has recorded of the changes of pods and nodes, by whoever made them: its audit log.

A control plane with `audits_pods` writes it. Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.watch_log import is_healthy

Json = dict[str, Any]
GRANTED, REFUSED_BY_BUDGET = 201, 429


class PodEvent(NamedTuple):
    """A change of a pod. at : when it counts; healthy : whether the pod is healthy from then on."""

    at: str
    name: str
    healthy: bool


def changes_of(path: Path) -> list[Json]:
    """Return the recorded requests that are complete."""
    # The API server may be about to write the last line.
    whole, _, _ = path.read_text().rpartition("\n")
    return [one for one in map(json.loads, whole.splitlines()) if one["stage"] == "ResponseComplete"]


def by_user(changes: Iterable[Json], user: str, verb: str, resource: str) -> list[str]:
    """Return the names of the objects for which a user's requests of a verb succeeded."""
    found = (one for one in changes if _user(one) == user and one["verb"] == verb)
    return [_name(one) for one in found if _resource(one) == resource and _code(one) < 300]


def evictions(changes: Iterable[Json], code: int = GRANTED) -> list[str]:
    """Return the names of the pods whose evictions got an answer, each as often as it did."""
    return [_name(one) for one in changes if _resource(one) == "pods/eviction" and _code(one) == code]


def lowest_health(changes: Iterable[Json], prefix: str) -> int:
    """Return the smallest number of healthy pods whose names begin so, since their number first was at its maximum.

    An eviction counts from its answer on, a report of health from its request on, so that what is found to be too
    little was too little.
    """
    healthy: set[str] = set()
    history = [0]
    for event in sorted(_health(changes)):
        if event.name.startswith(prefix):
            (healthy.add if event.healthy else healthy.discard)(event.name)
            history.append(len(healthy))
    return min(history[history.index(max(history)) :])


def _health(changes: Iterable[Json]) -> Iterable[PodEvent]:
    for one in changes:
        if _code(one) >= 300:
            continue
        if _resource(one) == "pods/eviction" or (_resource(one) == "pods" and one["verb"] == "delete"):
            yield PodEvent(one["stageTimestamp"], _name(one), False)
        elif _resource(one) == "pods/status":
            healthy = is_healthy(one["responseObject"])
            yield PodEvent(one["requestReceivedTimestamp" if healthy else "stageTimestamp"], _name(one), healthy)


def _user(one: Json) -> str:
    return str(one["user"]["username"])


def _name(one: Json) -> str:
    named = one["objectRef"].get("name") or one.get("responseObject", {}).get("metadata", {}).get("name", "")
    return str(named)


def _resource(one: Json) -> str:
    reference = one.get("objectRef", {})
    return "/".join(part for part in (reference.get("resource", ""), reference.get("subresource", "")) if part)


def _code(one: Json) -> int:
    return int(one.get("responseStatus", {}).get("code", 500))
