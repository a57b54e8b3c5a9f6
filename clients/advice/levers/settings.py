"""Blockers that a setting lifts. Defaults are those of `ScaleDownSettings`, as documented in its comments."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from trimtab.clients.advice.changes import AdvisedChange, Edit, Keys
from trimtab.clients.advice.levers.lever import BasePlan, Lever
from trimtab.clients.advice.result import Blocker
from trimtab.clients.json_form import json_form
from trimtab.clients.verdicts import staying
from trimtab.common.kubernetes.signals import clouds
from trimtab.v1 import reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

_Node = reason_pb2.UnremovableReason
_Pod = reason_pb2.BlockingPodReason
THRESHOLDS: Final = (0.6, 0.7, 0.8, 0.9, 1.0)
"""Utilization thresholds that are tried, of those above the one in force."""
_GPU_LABEL: Final = clouds.GKE_ACCELERATOR.key
_DEFAULTS: Final[dict[str, Any]] = {
    "enabled": True,
    "utilizationThreshold": 0.5,
    "gpuUtilizationThreshold": 0.5,
    "unreadyEnabled": True,
    "skipNodesWithLocalStorage": True,
    "skipNodesWithSystemPods": True,
    "skipNodesWithCustomControllerPods": True,
    "minReplicaCount": 0,
    "minSavingPerEviction": 0.0,
    "jobPodsUnmovable": False,
}


class _LiftingSetting(NamedTuple):
    """A setting of scale-down that lifts blockers. after : its value then; pods, nodes : reasons that it lifts."""

    kind: Blocker
    setting: str
    after: Any
    condition: str
    pods: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()


_RULES: Final = (
    _LiftingSetting(
        Blocker.LOCAL_STORAGE, "skipNodesWithLocalStorage", False, "pods with local storage could be evicted",
        (_Pod.LOCAL_STORAGE_REQUESTED,),
    ),
    _LiftingSetting(
        Blocker.SYSTEM_POD, "skipNodesWithSystemPods", False, "kube-system pods without a budget could be evicted",
        (_Pod.UNMOVABLE_KUBE_SYSTEM_POD,),
    ),
    _LiftingSetting(
        Blocker.CUSTOM_CONTROLLER, "skipNodesWithCustomControllerPods", False,
        "pods of custom or unknown controllers could be evicted", (_Pod.CONTROLLER_NOT_FOUND, _Pod.NOT_REPLICATED),
    ),
    _LiftingSetting(
        Blocker.FEW_REPLICAS, "minReplicaCount", 0, "pods of workloads with few replicas could be evicted",
        (_Pod.MIN_REPLICAS_REACHED,),
    ),
    _LiftingSetting(
        Blocker.UNREADY_NODES, "unreadyEnabled", True, "unready nodes could go",
        nodes=(_Node.SCALE_DOWN_UNREADY_DISABLED,),
    ),
    _LiftingSetting(
        Blocker.SMALL_SAVINGS, "minSavingPerEviction", 0.0, "evictions needed no least saving",
        nodes=(_Node.NOT_UNNEEDED_OTHER_REASON,),
    ),
)  # fmt: skip


def levers(base: BasePlan) -> Iterator[Lever]:
    """Yield the levers that are settings."""
    given = json_form(base.settings)
    if base.answer.scale_down.result == reason_pb2.ScaleDownResult.SCALE_DOWN_NOT_TRIED:
        kept = frozenset(one.node for one in staying(base.answer))
        yield _lever(Blocker.SWITCHED_OFF, "scale-down were on", {("scaleDown", "enabled"): True}, given, kept)
        return
    for rule in _RULES:
        kept = frozenset(one.node for one in base.blocked_by(*rule.pods))
        kept |= {one.node for reason in rule.nodes for one in base.staying(reason)}
        keys = ("scaleDown", rule.setting)
        if kept and _value(given, keys) != rule.after:
            yield _lever(rule.kind, rule.condition, {keys: rule.after}, given, kept)
    yield from _jobs(base, given)
    yield from _limits(base, given)
    yield from _balance(base, given)
    yield from _thresholds(base, given)


def _lever(kind: Blocker, condition: str, values: dict[Keys, Any], given: dict[str, Any], kept: Iterable[str]) -> Lever:
    """Return the lever that sets some fields. given : the JSON form of the settings."""
    changes = tuple(AdvisedChange("", keys, _value(given, keys), after) for keys, after in values.items())
    return Lever(kind, condition, Edit(settings=values), changes, frozenset(kept), whole=True)


def _value(given: Any, keys: Keys) -> Any:
    """Return the value of a field in settings, or its default; None = it has neither."""
    place = given
    for key in keys:
        if isinstance(key, int) or key in place:
            place = place[key]
        else:
            return _DEFAULTS.get(str(keys[-1]))
    return place


def _jobs(base: BasePlan, given: dict[str, Any]) -> Iterator[Lever]:
    """Yield the lever that lets Jobs' pods move: in all settings that keep them."""
    kept = {one.node for one in base.blocked_by(_Pod.JOB_POD_UNMOVABLE)}
    places: list[Keys] = [("scaleDown",), *(("nodeGroups", name) for name in sorted(given.get("nodeGroups", {})))]
    values: dict[Keys, Any] = {
        (*place, "jobPodsUnmovable"): False for place in places if _value(given, (*place, "jobPodsUnmovable"))
    }
    if kept and values:
        yield _lever(Blocker.JOB, "pods of Jobs could be evicted", values, given, kept)


def _limits(base: BasePlan, given: dict[str, Any]) -> Iterator[Lever]:
    """Yield a lever for each minimum of a resource in the cluster."""
    kept = [one.node for one in base.staying(_Node.MINIMAL_RESOURCE_LIMIT_EXCEEDED)]
    for row, limit in enumerate(base.settings.planner.limits):
        if kept and limit.minimum:
            values: dict[Keys, Any] = {("planner", "limits", row, "minimum"): "0"}
            condition = f"the minimum of {limit.resource} in the cluster were lifted"
            yield _lever(Blocker.CLUSTER_MINIMUM, condition, values, given, kept)


def _balance(base: BasePlan, given: dict[str, Any]) -> Iterator[Lever]:
    """Yield the lever that lets similar groups differ."""
    kept = [one.node for one in base.staying(_Node.BALANCE)]
    if kept and base.settings.planner.balance.max_difference:
        values: dict[Keys, Any] = {("planner", "balance", "maxDifference"): 0}
        yield _lever(Blocker.BALANCE, "similar node groups could differ in size", values, given, kept)


def _thresholds(base: BasePlan, given: dict[str, Any]) -> Iterator[Lever]:
    """Yield a lever for each setting with the threshold of nodes that are used too much."""
    kept: dict[Keys, list[str]] = {}
    for one in base.staying(_Node.NOT_UNDERUTILIZED):
        kept.setdefault(_threshold_keys(base, base.view.nodes[one.node], given), []).append(one.node)
    for keys, nodes in sorted(kept.items(), key=lambda pair: [str(key) for key in pair[0]]):
        now = _value(given, keys)
        steps = [
            _lever(Blocker.UTILIZATION, _at(keys, share), {keys: share}, given, nodes)
            for share in THRESHOLDS
            if share > now
        ]
        if steps:
            yield Lever(
                Blocker.UTILIZATION, steps[-1].condition, steps[-1].edit, steps[-1].changes, frozenset(nodes),
                whole=True, steps=tuple(steps),
            )  # fmt: skip


def _at(keys: Keys, share: float) -> str:
    gpu = "GPU " if keys[-1] == "gpuUtilizationThreshold" else ""
    of = f" of node group {keys[1]}" if keys[0] == "nodeGroups" else ""
    return f"the {gpu}utilization threshold{of} were {100 * share:.0f} %"


def _threshold_keys(base: BasePlan, node: pb.Node, given: dict[str, Any]) -> Keys:
    """Return the setting with the threshold of a node: that of its group if it overrides the general one."""
    name = "gpuUtilizationThreshold" if _has_gpu(base, node) else "utilizationThreshold"
    if name in given.get("nodeGroups", {}).get(node.node_group, {}):
        return "nodeGroups", node.node_group, name
    return "scaleDown", name


def _has_gpu(base: BasePlan, node: pb.Node) -> bool:
    """Return whether a node counts as one with a GPU. Source: `PlannerSettings.gpu_label`."""
    general = base.settings.planner
    label = general.gpu_label if general.HasField("gpu_label") else _GPU_LABEL
    resources = base.view.allocatable(node.name).items()
    has_label = bool(label) and label in base.view.labels(node.label_set)
    return has_label or any(amount for name, amount in resources if name.endswith("/gpu"))
