"""Evidence from a cluster's own objects that everything went right. Shares no code with planner or actuator.

A `ClusterPicture` is one consistent list of all objects. Two pictures, and those in between, show whether a pod was
lost, a budget violated, the wrong node removed or a taint left behind.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trimtab.common.kubernetes.selectors import selects
from trimtab.common.kubernetes.signals import cluster_autoscaler
from trimtab.common.rpc.collection import collection_paused

Object = dict[str, Any]
HARD_TAINT = cluster_autoscaler.TO_BE_DELETED.key
_ENDED = {"Succeeded", "Failed"}
_OF_NODES = ("DaemonSet ", "Node ")


@dataclass(frozen=True)
class BudgetHealth:
    """A PodDisruptionBudget in one picture: how many of its pods are healthy, and how many should be. `name` :
    "namespace/name"; `healthy`, `desired` : pods.
    """

    name: str
    healthy: int
    desired: int


@dataclass(frozen=True)
class ClusterPicture:
    """A cluster at one moment. `nodes` by name; `pods` by uid; `budgets` by "namespace/name"."""

    nodes: Mapping[str, Object]
    pods: Mapping[str, Object]
    budgets: Mapping[str, BudgetHealth]

    @property
    def node_pod_count(self) -> int:
        """Number of pods that come and go with their node: DaemonSet and mirror pods."""
        return sum(_controller(pod).startswith(_OF_NODES) for pod in self.pods.values())

    @property
    def waiting(self) -> list[str]:
        """Pods that are on no node, as "namespace/name"."""
        return sorted(_key(pod) for pod in self.pods.values() if not pod["spec"].get("nodeName"))


def picture(listed: bytes) -> ClusterPicture:
    """Read a Kubernetes `List`. O(objects), and for each budget O(pods of its namespace with the same labels)."""
    with collection_paused():
        items: list[Object] = msgspec.json.decode(listed)["items"]
        live = [item for item in items if item["kind"] == "Pod" and item.get("status", {}).get("phase") not in _ENDED]
        alike = _alike(live)
        budgets = [item for item in items if item["kind"] == "PodDisruptionBudget"]
        return ClusterPicture(
            nodes={item["metadata"]["name"]: item for item in items if item["kind"] == "Node"},
            pods={pod["metadata"]["uid"]: pod for pod in live},
            budgets={_key(one): _budget(one, alike.get(one["metadata"].get("namespace", ""), {})) for one in budgets},
        )


class Witness:
    """Compares pictures with the first one, and records every budget that is violated but was not violated then."""

    def __init__(self, before: ClusterPicture) -> None:
        self._floors = {name: min(budget.desired, budget.healthy) for name, budget in before.budgets.items()}
        self._broken: dict[str, str] = {}
        self.looks = 0

    def look(self, now: ClusterPicture) -> None:
        """Compare a picture with the first."""
        self.looks += 1
        for name, budget in now.budgets.items():
            floor = self._floors.get(name, 0)
            if budget.healthy < floor:
                self._broken.setdefault(name, f"budget {name}: {budget.healthy} healthy pods, {floor} required")

    def broken(self) -> list[str]:
        """Return the violations seen, sorted."""
        return [self._broken[name] for name in sorted(self._broken)]


def complaints(before: ClusterPicture, after: ClusterPicture, planned: Collection[str]) -> list[str]:
    """Return everything that is wrong after the `planned` nodes were removed; [] = all is well."""
    found = [f"node {name} should be gone and is still there" for name in sorted(set(planned) & set(after.nodes))]
    lost = set(before.nodes) - set(after.nodes) - set(planned)
    found += [f"node {name} is gone and should have stayed" for name in sorted(lost)]
    for name, node in sorted(after.nodes.items()):
        if any(taint["key"] == HARD_TAINT for taint in node.get("spec", {}).get("taints") or ()):
            found.append(f"node {name} still has the taint {HARD_TAINT}")
    for pod in after.pods.values():
        if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in after.nodes:
            found.append(f"pod {_key(pod)} is bound to {pod['spec']['nodeName']}, which no longer exists")
    waited = set(before.waiting)
    found += [f"pod {key} no longer has a node" for key in after.waiting if key not in waited]
    return found + _lost_pods(before, after)


def unsettled(before: ClusterPicture, now: ClusterPicture) -> bool:
    """Whether pods are missing, waiting, starting or terminating that were not so before."""

    def busy(picture: ClusterPicture) -> int:
        return sum(not _healthy(pod) for pod in picture.pods.values())

    return bool(_lost_pods(before, now)) or busy(now) > busy(before)


def moved(before: ClusterPicture, after: ClusterPicture) -> int:
    """Return how many pods were created again on another node."""
    return len(set(after.pods) - set(before.pods))


def _lost_pods(before: ClusterPicture, after: ClusterPicture) -> list[str]:
    """Controllers with fewer pods than before, and bare pods that are gone; those of DaemonSets go with their node."""
    now = Counter(_controller(pod) for pod in after.pods.values())
    then = Counter(_controller(pod) for pod in before.pods.values())
    return [
        f"{name} has {now[name]} pods instead of {count}"
        for name, count in sorted(then.items())
        if now[name] < count and not name.startswith(_OF_NODES)
    ]


def _controller(pod: Object) -> str:
    """The controller that would recreate the pod, or the pod itself."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner['kind']} {pod['metadata'].get('namespace', '')}/{owner['name']}"
    return f"pod {_key(pod)}"


def _key(item: Object) -> str:
    """ "namespace/name"."""
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


_Alike = dict[tuple[tuple[str, str], ...], list[Object]]
"""Pods of one namespace by their labels."""


def _alike(pods: Iterable[Object]) -> dict[str, _Alike]:
    """Return pods by namespace and labels: selectors are compared with the few labels that there are, not by pod."""
    found: dict[str, _Alike] = {}
    for pod in pods:
        meta = pod["metadata"]
        labels = tuple((meta.get("labels") or {}).items())
        found.setdefault(meta.get("namespace", ""), {}).setdefault(labels, []).append(pod)
    return found


def _budget(budget: Object, alike: _Alike) -> BudgetHealth:
    """Count a budget's healthy pods: selected, Ready, not terminating."""
    selector = budget["spec"].get("selector")
    groups = [pods for labels, pods in alike.items() if selects(selector, dict(labels))]
    chosen = [pod for pods in groups for pod in pods]
    desired = _desired(budget["spec"], budget.get("status", {}).get("expectedPods", len(chosen)))
    return BudgetHealth(name=_key(budget), healthy=sum(_healthy(pod) for pod in chosen), desired=desired)


def _healthy(pod: Object) -> bool:
    """Ready, and not being deleted."""
    conditions = pod.get("status", {}).get("conditions") or ()
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _desired(spec: Object, expected: int) -> int:
    """Return how many healthy pods a budget requires; percentages are rounded up, as the disruption controller does."""
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - _share(spec["maxUnavailable"], expected))
    return _share(spec.get("minAvailable", 1), expected)


def _share(written: int | str, expected: int) -> int:
    """An absolute number, or a percentage of the expected pods."""
    if isinstance(written, str) and written.endswith("%"):
        return -(-int(written[:-1]) * expected // 100)
    return int(written)
