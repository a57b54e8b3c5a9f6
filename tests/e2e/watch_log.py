"""The real history from the API server's own watches: every change of pods and nodes in the order of writing.

`kubectl get --raw …?watch` prints the events; nothing of the project is between the server and the log.
"""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

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
    """Watches from now on; use as a context manager, and query it afterwards."""

    def __init__(
        self,
        plane: ControlPlane,
        directory: Path,
        paths: Mapping[str, str] = PATHS,
        selectors: Mapping[str, str] | None = None,
    ) -> None:
        """`paths` and `selectors` (of labels) by kind."""
        self._plane = plane
        self._paths = paths
        self._selectors = selectors or {}
        self._files = {kind: directory / f"{kind}.jsonl" for kind in paths}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "WatchLog":
        for kind in self._paths:
            self._files[kind].touch()
            self._watch(kind, {})
        return self

    def _watch(self, kind: str, begin: Mapping[str, str]) -> None:
        query = {"watch": "1", "timeoutSeconds": "3600", **begin}
        if kind in self._selectors:
            query["labelSelector"] = self._selectors[kind]
        command = [self._plane.binaries / "kubectl", f"--kubeconfig={self._plane.kubeconfig('admin')}"]
        url = f"{self._paths[kind]}?{urlencode(query)}"
        with self._files[kind].open("ab") as out:
            self._processes[kind] = subprocess.Popen([*command, "get", "--raw", url], stdout=out)

    def _go_on(self, kind: str) -> None:
        """Continue from the last change if the server has ended the watch, as it does for slow callers."""
        if self._processes[kind].poll() is not None:
            with self._files[kind].open("ab") as out:
                out.write(b"\n")  # after half a line
            last = max((change.version for change in _read(kind, self._files[kind])), default=0)
            self._watch(kind, {"resourceVersion": str(last)} if last else {})

    def has_begun(self) -> bool:
        """Return whether every watch has reported something, so no later change is missed."""
        return all(path.stat().st_size for path in self._files.values())

    def wait_for(self, kind: str, version: str, limit_s: float = 60) -> None:
        """Wait until a change is in the log; all earlier ones are then there too."""
        end, sought = time.monotonic() + limit_s, f'"resourceVersion":"{version}"'.encode()
        while sought not in self._files[kind].read_bytes():
            assert time.monotonic() < end, f"the watch of {kind} does not tell of version {version}"
            self._go_on(kind)
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def changes(self) -> list[Change]:
        """Return all changes so far, in the order in which the server wrote them."""
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
    """Return whether a PodDisruptionBudget counts a pod as healthy."""
    return _is_ready(pod) and "deletionTimestamp" not in pod["metadata"]


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def owner_kind(pod: Json) -> str:
    """Return the kind of the controlling owner, "" = none."""
    return next((ref["kind"] for ref in pod["metadata"].get("ownerReferences", ()) if ref.get("controller")), "")


def was_told_to_go(pod: Json) -> bool:
    """Return whether a client requested the pod's deletion.

    kwok deletes pods by name without grace period, and sometimes hits the next pod of a StatefulSet: that is kwok's
    doing.
    """
    return "deletionTimestamp" in pod["metadata"] and (
        _is_evicted(pod) or pod["metadata"]["deletionGracePeriodSeconds"] > 0
    )


def _is_evicted(pod: Json) -> bool:
    """Return whether the eviction API has marked the pod."""
    return any(one.get("reason") == "EvictionByEvictionAPI" for one in pod["status"].get("conditions") or ())


def lowest_health(changes: list[Change], namespace: str, labels: dict[str, str]) -> int:
    """Return the smallest number of healthy pods with these labels, since their number first was at its maximum."""
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
    """Return the removed nodes."""
    return {change.item["metadata"]["name"] for change in changes if change.kind == "Node" and change.gone}


def new_nodes(changes: list[Change], after_version: int) -> set[str]:
    """Return the nodes added after a version."""
    first: dict[str, int] = {}
    for change in changes:
        if change.kind == "Node":
            first.setdefault(change.item["metadata"]["name"], change.version)
    return {name for name, version in first.items() if version > after_version}


def ended_pods(changes: list[Change]) -> dict[str, Json]:
    """Return by uid the pods whose deletion was requested, as they were then, without those of DaemonSets."""
    found: dict[str, Json] = {}
    for change in changes:
        if change.kind == "Pod" and was_told_to_go(change.item) and owner_kind(change.item) != "DaemonSet":
            found.setdefault(change.item["metadata"]["uid"], change.item)
    return found


def unprotected_evictions(changes: list[Change]) -> list[str]:
    """Return the pods deleted other than by eviction from a node with the hard taint, without those of DaemonSets."""
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
    """Return how often each node got the hard taint."""
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
    """Return the nodes whose pods at some time requested more CPU, memory or pods than the nodes have."""
    room: dict[str, tuple[int, ...]] = {}
    asked: dict[str, dict[str, tuple[int, ...]]] = {}
    wrong = set()
    for change in changes:
        if change.kind == "Node":
            amounts = change.item["status"]["allocatable"]
            room[change.item["metadata"]["name"]] = tuple(read(amounts[name]) for name, read in _AMOUNTS.items())
            continue
        node = change.item["spec"].get("nodeName", "")
        pods = asked.setdefault(node, {})
        ended = change.gone or change.item["status"].get("phase") in ("Succeeded", "Failed")
        pods[change.item["metadata"]["uid"]] = (0, 0, 0) if ended else _requests(change.item)
        sums = map(sum, zip(*pods.values(), strict=True))
        if node in room and any(used > most for used, most in zip(sums, room[node], strict=True)):
            wrong.add(node)
    return sorted(wrong)


def healthy_at_the_end(changes: list[Change]) -> Counter[str]:
    """Return the pods that are ready when the log ends, by their label "app"."""
    last = {change.item["metadata"]["uid"]: change for change in changes if change.kind == "Pod"}
    ready = [one.item for one in last.values() if not one.gone and is_healthy(one.item)]
    return Counter(pod["metadata"].get("labels", {}).get("app", "") for pod in ready)


def ever_on(changes: list[Change], labels: Mapping[str, str]) -> set[str]:
    """Return the nodes on which a pod with these labels ever was."""
    return {
        change.item["spec"].get("nodeName", "")
        for change in changes
        if change.kind == "Pod" and labels.items() <= change.item["metadata"].get("labels", {}).items()
    } - {""}


def eviction_gaps_s(changes: list[Change], labels: Mapping[str, str]) -> list[float]:
    """Seconds between the evictions of pods with these labels that were ready; whole seconds are known.

    All must have the same grace period. A pod that is not ready goes without asking a budget whose others are.
    """
    ended = (pod for pod in ended_pods(changes).values() if labels.items() <= pod["metadata"]["labels"].items())
    told = [pod for pod in ended if _is_ready(pod)]
    times = sorted(datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]).timestamp() for pod in told)
    return [later - earlier for earlier, later in pairwise(times)]


def _requests(pod: Json) -> tuple[int, int, int]:
    """Return the requested cpu in milli-cores, memory in bytes, and one pod."""
    requests = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
    cpu_milli = sum(_milli(one.get("cpu", "0")) for one in requests)
    return cpu_milli, sum(_bytes(one.get("memory", "0")) for one in requests), 1


def _milli(quantity: str) -> int:
    return int(quantity.removesuffix("m")) if quantity.endswith("m") else int(quantity) * 1000


def _bytes(quantity: str) -> int:
    for suffix, factor in (("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)):
        if quantity.endswith(suffix):
            return int(quantity.removesuffix(suffix)) * factor
    return int(quantity)


_AMOUNTS: dict[str, Callable[[str], int]] = {"cpu": _milli, "memory": _bytes, "pods": int}
