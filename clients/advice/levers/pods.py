"""Blockers that a change to pods lifts, made in the template of their workload where it has one."""

from collections.abc import Iterator
from typing import Any, Final

from trimtab.clients.advice.changes import AdvisedChange, Edit, SpecChange, patch_command
from trimtab.clients.advice.levers.lever import BasePlan, BlockedPod, Lever, joined
from trimtab.clients.advice.result import Blocker
from trimtab.clients.advice.workloads import TEMPLATED, WorkloadName
from trimtab.clients.cluster_view import ShownPod
from trimtab.common.kubernetes.signals.cluster_autoscaler import SAFE_TO_EVICT
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT
from trimtab.v1 import reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

_Node = reason_pb2.UnremovableReason
_Pod = reason_pb2.BlockingPodReason
_KINDS: Final = {
    Blocker.LOCAL_STORAGE: (_Pod.LOCAL_STORAGE_REQUESTED, "workloads with local storage could be evicted"),
    Blocker.NOT_SAFE_TO_EVICT: (
        _Pod.NOT_SAFE_TO_EVICT_ANNOTATION, "workloads annotated safe-to-evict: false could be evicted",
    ),
    Blocker.NO_CONTROLLER: (_Pod.NOT_REPLICATED, "pods that nothing creates again could be evicted"),
    Blocker.SYSTEM_POD: (_Pod.UNMOVABLE_KUBE_SYSTEM_POD, "kube-system workloads without a budget could be evicted"),
}  # fmt: skip
_ANNOTATIONS: Final = {
    pb.SafeToEvict.TRUE: "true",
    pb.SafeToEvict.FALSE: "false",
    pb.SafeToEvict.ON_COMPLETION: "on-completion",
}
_ANTI_AFFINITY: Final = ("POD_ANTI_AFFINITY_VIOLATED", "EXISTING_POD_ANTI_AFFINITY_VIOLATED")
_SPREAD: Final = "TOPOLOGY_SPREAD_VIOLATED"
_AFFINITY_PATH: Final = ("spec", "template", "spec", "affinity", "podAntiAffinity")
_SPREAD_PATH: Final = ("spec", "template", "spec", "topologySpreadConstraints")


def evictable(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each workload, and each pod without one, that a rule of its own keeps from being evicted; and
    one for all of a kind for which there is no setting.
    """
    for kind, (reason, condition) in _KINDS.items():
        single = list(_of_reason(base, kind, reason))
        yield from single
        if len(single) > 1 and kind in (Blocker.NOT_SAFE_TO_EVICT, Blocker.NO_CONTROLLER):
            yield joined(kind, f"{len(single)} {condition}", single)


def _of_reason(base: BasePlan, kind: Blocker, reason: int) -> Iterator[Lever]:
    """Yield the levers of one reason."""
    found: dict[WorkloadName | str, list[BlockedPod]] = {}
    for one in base.blocked_by(reason):
        if one.alone:
            found.setdefault(base.workloads.of(one.pod.row) or one.pod.key, []).append(one)
    for subject, pods in sorted(found.items(), key=lambda pair: str(pair[0])):
        kept = frozenset(one.node for one in pods)
        yield evictable_lever(base, kind, subject, pods[0].pod, kept)


def evictable_lever(
    base: BasePlan, kind: Blocker, subject: WorkloadName | str, example: ShownPod, kept: frozenset[str]
) -> Lever:
    """Return the lever that lets a workload's pods, or one pod by its key, be evicted."""
    rows = base.workloads.rows(subject) if isinstance(subject, WorkloadName) else [example.row]
    edit = Edit(pods=dict.fromkeys(rows, frozenset({SpecChange.EVICTABLE})))
    before = _ANNOTATIONS.get(example.spec.safe_to_evict)
    if isinstance(subject, WorkloadName) and subject.kind in TEMPLATED:
        annotations = {"template": {"metadata": {"annotations": {SAFE_TO_EVICT.key: "true"}}}}
        keys = ("spec", "template", "metadata", "annotations", SAFE_TO_EVICT.key)
        changes = [AdvisedChange(subject.object, keys, before, "true", _patch(subject, {"spec": annotations}))]
    else:
        names = sorted(base.view.pod_keys[row] for row in rows)
        changes = [_annotated(name, before) for name in names]
    what = str(subject) if isinstance(subject, WorkloadName) else f"pod {subject}"
    return Lever(kind, f"{what} could be evicted", edit, tuple(changes), kept)


def _annotated(key: str, before: str | None) -> AdvisedChange:
    """Return the change of one pod."""
    namespace, _, name = key.partition("/")
    command = f"kubectl annotate pod {name} -n {namespace} {SAFE_TO_EVICT.key}=true --overwrite"
    return AdvisedChange(f"Pod/{key}", ("metadata", "annotations", SAFE_TO_EVICT.key), before, "true", command)


def _patch(workload: WorkloadName, patch: dict[str, Any]) -> str:
    return patch_command(workload.kind.lower(), workload.name, patch, workload.namespace)


def disruptable(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each workload, and each pod without one, that Karpenter's annotation keeps where it is."""
    found: dict[WorkloadName | str, list[BlockedPod]] = {}
    for one in base.blocked_by(_Pod.DO_NOT_DISRUPT):
        if one.alone:
            found.setdefault(base.workloads.of(one.pod.row) or one.pod.key, []).append(one)
    for subject, pods in sorted(found.items(), key=lambda pair: str(pair[0])):
        changes = []
        for key in sorted(one.pod.key for one in pods):
            namespace, _, name = key.partition("/")
            command = f"kubectl annotate pod {name} -n {namespace} {DO_NOT_DISRUPT.key}-"
            changes.append(
                AdvisedChange(f"Pod/{key}", ("metadata", "annotations", DO_NOT_DISRUPT.key), "true", None, command)
            )
        edit = Edit(pods={one.pod.row: frozenset({SpecChange.DISRUPTABLE}) for one in pods})
        what = str(subject) if isinstance(subject, WorkloadName) else f"pod {subject}"
        kept = frozenset(one.node for one in pods)
        yield Lever(Blocker.DO_NOT_DISRUPT, f"{what} could be disrupted", edit, tuple(changes), kept)


def placement(base: BasePlan) -> Iterator[Lever]:
    """Yield a lever for each workload whose anti-affinity or spread keeps pods from finding a place."""
    apart: dict[WorkloadName, set[str]] = {}
    spread: dict[WorkloadName, set[str]] = {}
    for node in base.staying(_Node.NO_PLACE_TO_MOVE_PODS):
        pod = base.view.pod(node.blocking_pod)
        if pod is None:
            continue
        if any(name in node.predicate_failure_counts for name in _ANTI_AFFINITY):
            for workload in _repelling(base, pod):
                apart.setdefault(workload, set()).add(node.node)
        own = base.workloads.of(pod.row)
        if _SPREAD in node.predicate_failure_counts and own is not None and own.kind in TEMPLATED:
            spread.setdefault(own, set()).add(node.node)
    for workload, nodes in sorted(apart.items()):
        yield preferred_anti_affinity(base, workload, frozenset(nodes))
    for workload, nodes in sorted(spread.items()):
        if any(node.taints for node in base.view.snapshot.nodes) and _counts_tainted(base, workload):
            yield without_tainted_domains(base, workload, frozenset(nodes))
        yield soft_spread(base, workload, frozenset(nodes))


def _repelling(base: BasePlan, pod: ShownPod) -> Iterator[WorkloadName]:
    """Yield the workloads whose required anti-affinity concerns a pod: its own, and those whose terms select it."""
    own = base.workloads.of(pod.row)
    namespace = pod.key.partition("/")[0]
    for workload in base.workloads.all:
        if workload.kind not in TEMPLATED:
            continue
        spec = base.view.pod_spec(base.workloads.rows(workload)[0])
        if spec.pod_anti_affinity and (
            workload == own
            or any(_selects(base, term, workload.namespace, namespace, pod) for term in spec.pod_anti_affinity)
        ):
            yield workload


def _selects(base: BasePlan, term: pb.PodAffinityTerm, own: str, namespace: str, pod: ShownPod) -> bool:
    """Return whether a term of a workload in the namespace `own` may select a pod; selectors of namespaces may."""
    listed = {base.view.text(index) for index in term.namespaces}
    if not term.HasField("namespace_selector") and namespace not in (listed or {own}):
        return False
    return term.HasField("selector") and base.view.selects(term.selector.requirements, pod.labels)


def preferred_anti_affinity(base: BasePlan, workload: WorkloadName, kept: frozenset[str]) -> Lever:
    """Return the lever that makes a workload's required anti-affinity preferred."""
    change = AdvisedChange(
        workload.object, _AFFINITY_PATH, "required", "the same terms preferred, each with weight 100",
        f"kubectl edit {workload.kind.lower()} {workload.name} -n {workload.namespace}",
    )  # fmt: skip
    edit = Edit(pods=dict.fromkeys(base.workloads.rows(workload), frozenset({SpecChange.PREFERRED_ANTI_AFFINITY})))
    condition = f"the anti-affinity of {workload} were preferred, not required"
    return Lever(Blocker.ANTI_AFFINITY, condition, edit, (change,), kept)


def _counts_tainted(base: BasePlan, workload: WorkloadName) -> bool:
    """Return whether a spread constraint of a workload counts domains whose nodes have taints that it does not
    tolerate."""
    return any(
        not one.honor_node_taints for one in base.view.pod_spec(base.workloads.rows(workload)[0]).topology_spread
    )


def without_tainted_domains(base: BasePlan, workload: WorkloadName, kept: frozenset[str]) -> Lever:
    """Return the lever that leaves tainted nodes out of the domains of a workload's spread constraints."""
    change = AdvisedChange(
        workload.object, (*_SPREAD_PATH, "nodeTaintsPolicy"), "Ignore", "Honor",
        f"kubectl edit {workload.kind.lower()} {workload.name} -n {workload.namespace}",
    )  # fmt: skip
    changed = frozenset({SpecChange.TAINTED_DOMAINS_LEFT_OUT})
    condition = f"the topology spread of {workload} did not count nodes with taints"
    edit = Edit(pods=dict.fromkeys(base.workloads.rows(workload), changed))
    return Lever(Blocker.TOPOLOGY_SPREAD, condition, edit, (change,), kept)


def soft_spread(base: BasePlan, workload: WorkloadName, kept: frozenset[str]) -> Lever:
    """Return the lever that makes a workload's spread constraints soft."""
    change = AdvisedChange(
        workload.object, (*_SPREAD_PATH, "whenUnsatisfiable"), "DoNotSchedule", "ScheduleAnyway",
        f"kubectl edit {workload.kind.lower()} {workload.name} -n {workload.namespace}",
    )  # fmt: skip
    edit = Edit(pods=dict.fromkeys(base.workloads.rows(workload), frozenset({SpecChange.SOFT_SPREAD})))
    condition = f"the topology spread of {workload} were ScheduleAnyway"
    return Lever(Blocker.TOPOLOGY_SPREAD, condition, edit, (change,), kept)
