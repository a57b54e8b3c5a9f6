"""What really happened, from the API server's own watches: every change of pods and nodes in the order of its writing.

`kubectl get --raw …?watch` prints the events; nothing of the project is between the server and the log.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.control_plane.control_plane import ControlPlane

Json = dict[str, Any]
PATHS = {"Pod": "/api/v1/pods", "Node": "/api/v1/nodes"}
HARD_TAINT = "ToBeDeletedByClusterAutoscaler"


class Change(NamedTuple):
    """An object after a change; `gone` = it was removed."""

    version: int
    kind: str
    gone: bool
    item: Json


class WatchLog:
    """Watches from now on; use as a context manager, ask when it is over."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._plane = plane
        self._files = {kind: directory / f"{kind}.jsonl" for kind in PATHS}
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "WatchLog":
        for kind, path in PATHS.items():
            query = "watch=1&timeoutSeconds=3600"
            command = [self._plane.binaries / "kubectl", f"--kubeconfig={self._plane.kubeconfig('admin')}"]
            with self._files[kind].open("wb") as out:
                self._processes.append(subprocess.Popen([*command, "get", "--raw", f"{path}?{query}"], stdout=out))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def changes(self) -> list[Change]:
        """All changes so far, in the order in which the server wrote them."""
        found = [change for kind, path in self._files.items() for change in _read(kind, path)]
        return sorted(found, key=lambda change: change.version)


def _read(kind: str, path: Path) -> Iterator[Change]:
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # the line being written just now
            continue
        assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
        item = event["object"]
        yield Change(int(item["metadata"]["resourceVersion"]), kind, event["type"] == "DELETED", item)


def is_healthy(pod: Json) -> bool:
    """Whether a PodDisruptionBudget counts a pod."""
    conditions = pod["status"].get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def owner_kind(pod: Json) -> str:
    """Kind of the controlling owner, "" = none."""
    return next((ref["kind"] for ref in pod["metadata"].get("ownerReferences", ()) if ref.get("controller")), "")


def was_told_to_go(pod: Json) -> bool:
    """Whether somebody asked for the pod's end.

    kwok ends pods by their name with no grace, and now and then hits the next pod of a StatefulSet: that is its doing.
    """
    return "deletionTimestamp" in pod["metadata"] and (
        _is_evicted(pod) or pod["metadata"]["deletionGracePeriodSeconds"] > 0
    )


def _is_evicted(pod: Json) -> bool:
    """Whether the eviction API has marked the pod."""
    return any(one.get("reason") == "EvictionByEvictionAPI" for one in pod["status"].get("conditions") or ())


def lowest_health(changes: list[Change], namespace: str, labels: dict[str, str]) -> int:
    """The fewest healthy pods with these labels at any time, from when they were most for the first time."""
    healthy: dict[str, bool] = {}
    history = []
    for change in changes:
        meta = change.item["metadata"]
        if change.kind != "Pod" or meta.get("namespace") != namespace:
            continue
        if labels.items() <= meta.get("labels", {}).items():
            healthy[meta["uid"]] = not change.gone and is_healthy(change.item)
            history.append(sum(healthy.values()))
    return min(history[history.index(max(history)) :]) if history else 0


def gone_nodes(changes: list[Change]) -> set[str]:
    """Nodes that were removed."""
    return {change.item["metadata"]["name"] for change in changes if change.kind == "Node" and change.gone}


def new_nodes(changes: list[Change], after_version: int) -> set[str]:
    """Nodes that came after a moment."""
    first: dict[str, int] = {}
    for change in changes:
        if change.kind == "Node":
            first.setdefault(change.item["metadata"]["name"], change.version)
    return {name for name, version in first.items() if version > after_version}


def ended_pods(changes: list[Change]) -> dict[str, Json]:
    """Pods that were told to go, DaemonSets' excepted, by uid, as they were then."""
    found: dict[str, Json] = {}
    for change in changes:
        if change.kind == "Pod" and was_told_to_go(change.item) and owner_kind(change.item) != "DaemonSet":
            found.setdefault(change.item["metadata"]["uid"], change.item)
    return found


def unprotected_evictions(changes: list[Change]) -> list[str]:
    """Pods told to go, DaemonSets' excepted, otherwise than by eviction from a node with the hard taint."""
    tainted: dict[str, bool] = {}
    told: set[str] = set()
    wrong = []
    for change in changes:
        meta = change.item["metadata"]
        if change.kind == "Node":
            taints = change.item["spec"].get("taints") or ()
            tainted[meta["name"]] = any(taint["key"] == HARD_TAINT for taint in taints)
        elif was_told_to_go(change.item) and meta["uid"] not in told and owner_kind(change.item) != "DaemonSet":
            told.add(meta["uid"])
            if not _is_evicted(change.item) or not tainted.get(change.item["spec"].get("nodeName", "")):
                wrong.append(f"{meta['namespace']}/{meta['name']}")
    return wrong


def taint_flips(changes: list[Change]) -> Counter[str]:
    """How often each node got the hard taint."""
    count: Counter[str] = Counter()
    before: dict[str, bool] = {}
    for change in changes:
        if change.kind == "Node":
            name = change.item["metadata"]["name"]
            now = any(taint["key"] == HARD_TAINT for taint in change.item["spec"].get("taints") or ())
            count[name] += now and not before.get(name, False)
            before[name] = now
    return count


def overfull_nodes(changes: list[Change]) -> list[str]:
    """Nodes that at some time had more CPU asked for than they have."""
    room: dict[str, int] = {}
    asked: dict[str, dict[str, int]] = {}
    wrong = set()
    for change in changes:
        if change.kind == "Node":
            room[change.item["metadata"]["name"]] = _milli(change.item["status"]["allocatable"]["cpu"])
            continue
        node = change.item["spec"].get("nodeName", "")
        pods = asked.setdefault(node, {})
        ended = change.gone or change.item["status"].get("phase") in ("Succeeded", "Failed")
        pods[change.item["metadata"]["uid"]] = 0 if ended else _cpu(change.item)
        if node in room and sum(pods.values()) > room[node]:
            wrong.add(node)
    return sorted(wrong)


def _cpu(pod: Json) -> int:
    return sum(
        _milli(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for container in pod["spec"]["containers"]
    )


def _milli(quantity: str) -> int:
    return int(quantity.removesuffix("m")) if quantity.endswith("m") else int(quantity) * 1000
