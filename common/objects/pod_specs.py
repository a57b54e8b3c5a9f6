"""Distinct pod specs: one `PodSpec` row for all pods that scheduling and draining cannot tell apart.

A row is expensive and pods are many: pods are compared by the encoded form of their decoded fields first (a few
microseconds). Only a new form is computed and compared as a row.

Errors: FieldError with the path below the pod. Source: see the modules that this one calls.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from trimtab.common.kubernetes.kinds.pods import (
    Affinity,
    ContainerStatus,
    Pod,
    PodAnnotations,
    PodSpec,
    RepeatedPodSpec,
)
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.pod_requests import is_resize_infeasible, pod_requests
from trimtab.common.kubernetes.quantities import MOST_REQUESTED
from trimtab.common.kubernetes.selectors import node_selector_terms
from trimtab.common.kubernetes.signals import cluster_autoscaler
from trimtab.common.objects.devices.extended_resources import extended_requests
from trimtab.common.objects.devices.pod_claims import (
    NO_CLAIMS,
    Claimant,
    ClaimObjects,
    ResolvedClaim,
    content_of,
    pod_claim,
    resolve,
)
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.mounts import NOTHING, Mounts
from trimtab.common.objects.placement_rules import (
    host_ports,
    pod_affinity_terms,
    preferred_terms,
    split_pin,
    spread_constraints,
    tolerations,
)
from trimtab.common.objects.times import go_duration_ns
from trimtab.v1 import snapshot_pb2 as pb

DEFAULT_SCHEDULER = "default-scheduler"
DEFAULT_GRACE_S = 30
_CLUSTER_AUTOSCALER = "cluster-autoscaler.kubernetes.io"
_SECOND_NS = 10**9
_SAFE_TO_EVICT = {
    "true": pb.SafeToEvict.TRUE,
    "false": pb.SafeToEvict.FALSE,
    "on-completion": pb.SafeToEvict.ON_COMPLETION,
}
_RESTART_POLICIES = {
    "Always": pb.RestartPolicy.ALWAYS,
    "OnFailure": pb.RestartPolicy.ON_FAILURE,
    "Never": pb.RestartPolicy.NEVER,
}
_NO_ANNOTATIONS = PodAnnotations()
RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClasses(dict[str, int]):
    """Priorities by class name, for pods whose `priority` is not filled in; `default` is that of no class."""

    default: int = 0


def priority_classes(objects: Iterable[Any]) -> PriorityClasses:
    """Return the priorities of PriorityClasses, including those of the system."""
    classes = PriorityClasses(_SYSTEM_PRIORITIES)
    for one in objects:
        classes[one.metadata.name] = one.value or 0
        if one.global_default:
            classes.default = one.value or 0
    return classes


_encode = msgspec.msgpack.Encoder().encode


def spec_key(pod: Pod, mounts: Mounts) -> tuple[bytes, str]:
    """Return (key, node that the pod is pinned to or ""); pods with equal keys have equal spec rows."""
    spec = pod.spec or _NO_SPEC
    if isinstance(spec, RepeatedPodSpec):
        form = spec.form
        if form.key is None:
            form.key, form.pinned = _own_key(spec)
        key, pinned = form.key, form.pinned
    else:
        key, pinned = _own_key(spec)
    annotations = pod.metadata.annotations if pod.metadata else None
    resized, is_infeasible = _resized(pod), is_resize_infeasible(pod.status)
    if mounts is NOTHING and annotations is None and resized is None and not is_infeasible:
        return key, pinned
    kept = annotations or _NO_ANNOTATIONS
    beside = (
        mounts[:3],
        (
            kept.safe_to_evict, kept.enable_ds_eviction, kept.topology_spread_timeout, kept.scale_up_delay,
            kept.slack_ignore, consumed_request(kept), kept.vpa_updates is not None,
        ),
        resized, is_infeasible,
    )  # fmt: skip
    return (key if beside == _NOTHING_BESIDE else key + _encode(beside)), pinned


_NO_SPEC = PodSpec()
_NOTHING_BESIDE = (NOTHING[:3], (None,) * 5 + ("", False), None, False)


def _own_key(spec: PodSpec) -> tuple[bytes, str]:
    """Return (key of a spec alone, node that it is pinned to or "")."""
    pinned, affinity = ("", None) if spec.affinity is None else split_pin(spec.affinity)
    key = _encode(
        (
            spec.containers, spec.init_containers, spec.resources, spec.overhead, spec.node_selector, affinity,
            spec.tolerations, spec.topology_spread_constraints, spec.host_network, spec.priority,
            spec.priority_class_name, spec.preemption_policy == "Never", spec.scheduler_name, spec.restart_policy,
            spec.termination_grace_period_seconds, spec.host_users,
        )
    )  # fmt: skip
    return key, pinned


class PodSpecTable:
    """Maps pods to indices of spec rows. `notes` collects invalid values, which upstream ignores too."""

    def __init__(
        self, dictionary: Dictionary, priorities: PriorityClasses, claim_objects: ClaimObjects = NO_CLAIMS
    ) -> None:
        self.dictionary, self._claim_objects = dictionary, claim_objects
        self._priorities = priorities
        # Indices by key of the rows made so far.
        self.known: dict[bytes, int] = {}
        self.notes: list[str] = []

    def index(self, key: bytes, pod: Pod, mounts: Mounts, name: str, claimant: Claimant | None = None) -> int:
        """Return the index of the spec row of a pod with this key; `name` is for notes; `claimant` : the pod, if it
        claims devices.
        """
        claims: list[ResolvedClaim] = []
        if claimant is not None:
            claims = list(resolve(claimant, self._claim_objects))
            key += content_of(claims)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.dictionary.pod_spec(self._row(pod, mounts, name, claims))
        return found

    def _row(self, pod: Pod, mounts: Mounts, name: str, claims: Iterable[ResolvedClaim]) -> pb.PodSpec:
        dictionary, spec = self.dictionary, pod.spec or PodSpec()
        affinity = None if spec.affinity is None else split_pin(spec.affinity)[1]
        with below("spec"):
            if not spec.containers:
                raise FieldError("containers", "there is none", "give the whole pod, as kubectl prints it")
            row = pb.PodSpec(
                requests=self._requests(pod, spec, name),
                node_selector=[
                    pb.LabelPair(key=dictionary.string(key), value=dictionary.string(value))
                    for key, value in sorted((spec.node_selector or {}).items())
                ],
                tolerations=tolerations(spec.tolerations, dictionary),
                host_ports=host_ports(spec, dictionary),
                topology_spread=spread_constraints(spec.topology_spread_constraints, dictionary),
                priority=self._priority(spec),
                never_preempts=spec.preemption_policy == "Never",
                restart_policy=_restart_policy(spec.restart_policy),
                local_storage=mounts.local_storage,
                claims=map(pod_claim, claims),
                extended_device_requests=self._extended_requests(spec),
                exclusive_disks=[dictionary.string(disk) for disk in mounts.exclusive_disks],
                read_only_disks=[dictionary.string(disk) for disk in mounts.read_only_disks],
                node_features=[dictionary.string(name) for name in node_features(spec)],
            )
            if affinity is not None:
                with below("affinity"):
                    self._add_affinity(row, affinity)
            if spec.scheduler_name != DEFAULT_SCHEDULER:
                row.scheduler_name = dictionary.string(spec.scheduler_name)
            _add_grace(row, spec.termination_grace_period_seconds)
        self._add_annotations(row, pod)
        return row

    def _extended_requests(self, spec: PodSpec) -> list[pb.ExtendedDeviceRequest]:
        provided = self._claim_objects.resources
        return extended_requests(spec, provided.__contains__) if provided else []

    def _requests(self, pod: Pod, spec: PodSpec, name: str) -> list[pb.ResourceAmount]:
        rows = []
        for resource, amount in _requests_of(pod, spec):
            if amount > MOST_REQUESTED:
                self.notes.append(
                    f"Pod {name} and those like it: spec.containers request {amount} of {resource}; that counts as "
                    f"{MOST_REQUESTED}, more than any node has, so they fit nowhere; correct their requests"
                )
            counted = min(amount, MOST_REQUESTED)
            rows.append(pb.ResourceAmount(resource=self.dictionary.resource(resource), amount=counted))
        return rows

    def _add_affinity(self, row: pb.PodSpec, affinity: Affinity) -> None:
        required = affinity.node_affinity.required if affinity.node_affinity else None
        if required is not None:
            with below("nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"):
                message = self.dictionary.node_selector(node_selector_terms(required))
            row.node_affinity.CopyFrom(message or pb.NodeSelector())
        with below("podAffinity"):
            row.pod_affinity.extend(pod_affinity_terms(affinity.pod_affinity, self.dictionary))
        with below("podAntiAffinity"):
            row.pod_anti_affinity.extend(pod_affinity_terms(affinity.pod_anti_affinity, self.dictionary))
            row.preferred_pod_anti_affinity.extend(preferred_terms(affinity.pod_anti_affinity, self.dictionary))

    def _add_annotations(self, row: pb.PodSpec, pod: Pod) -> None:
        annotations = (pod.metadata and pod.metadata.annotations) or _NO_ANNOTATIONS
        row.safe_to_evict = _SAFE_TO_EVICT.get(annotations.safe_to_evict or "", pb.SafeToEvict.UNSPECIFIED)
        row.requests_by_vpa = annotations.vpa_updates is not None
        row.ignored_by_slack = annotations.slack_ignore == "true"
        row.capacity_request = self.dictionary.string(consumed_request(annotations))
        if annotations.enable_ds_eviction in ("true", "false"):
            row.enable_ds_eviction = annotations.enable_ds_eviction == "true"
        if annotations.topology_spread_timeout is not None:
            timeout_ns = self._duration_ns(annotations.topology_spread_timeout, cluster_autoscaler.SPREAD_TIMEOUT.key)
            if timeout_ns is not None:
                row.topology_spread_timeout.seconds = timeout_ns // _SECOND_NS
        if annotations.scale_up_delay is not None:
            delay_ns = self._duration_ns(annotations.scale_up_delay, f"{_CLUSTER_AUTOSCALER}/pod-scale-up-delay")
            if delay_ns is not None:
                row.scale_up_delay.seconds = -(-delay_ns // _SECOND_NS)

    def _duration_ns(self, text: str, annotation: str) -> int | None:
        """Return a duration, 0 for a negative one; None, with a note, for an invalid one."""
        try:
            return max(go_duration_ns(text), 0)
        except FieldError as error:
            self.notes.append(f"annotation {annotation} is ignored: {error.problem}")
            return None

    def _priority(self, spec: PodSpec) -> int:
        value = spec.priority
        if value is None:
            name = spec.priority_class_name
            value = self._priorities.get(name, 0) if name else self._priorities.default
        if not -(2**31) <= value < 2**31:
            raise FieldError("priority", f"{value} is out of range", "give a 32-bit integer")
        return value


def consumed_request(annotations: PodAnnotations) -> str:
    """Return the ProvisioningRequest whose room a pod takes, "" = none. The older prefix counts, too, as upstream."""
    return annotations.capacity_request or annotations.old_capacity_request or ""


def node_features(spec: PodSpec) -> list[str]:
    """Return the features that a node must declare for a pod, sorted.

    Not modelled: bind mount options (feature VolumeBindMountOptions, alpha in 1.37).
    Source: component-helpers nodedeclaredfeatures, InferForScheduling of each feature, 0.37.2.
    """
    rules = (
        rule
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        for rule in container.restart_policy_rules or ()
    )
    names = [RESTART_ALL_CONTAINERS] if any(rule.action == "RestartAllContainers" for rule in rules) else []
    if spec.host_network and spec.host_users is False:
        names.append(USER_NAMESPACES_ON_HOST_NETWORK)
    return names


def _restart_policy(policy: str | None) -> pb.RestartPolicy.Code.ValueType:
    code = _RESTART_POLICIES.get(policy or "Always")
    if code is None:
        raise FieldError("restartPolicy", f"{policy!r} is unknown", f"use one of {', '.join(_RESTART_POLICIES)}")
    return code


def _add_grace(row: pb.PodSpec, grace_s: int | None) -> None:
    if grace_s is None or grace_s == DEFAULT_GRACE_S:
        return
    if grace_s < 0:
        raise FieldError("terminationGracePeriodSeconds", f"{grace_s} is negative", "give at least 0")
    row.termination_grace_period.seconds = grace_s


def _requests_of(pod: Pod, spec: PodSpec) -> list[tuple[str, int]]:
    """Return `pod_requests`. Kept with the spec: each delta has rows of many specs that earlier ones had."""
    if _resized(pod) is not None:
        return pod_requests(spec, pod.status)
    if not isinstance(spec, RepeatedPodSpec):
        return pod_requests(spec)
    if spec.form.requests is None:
        spec.form.requests = pod_requests(spec)
    return spec.form.requests


def _resized(pod: Pod) -> list[ContainerStatus] | None:
    """Return the container statuses of a placed pod, if one has other requests allocated than its spec has."""
    statuses = pod.status.container_statuses if pod.status else None
    if pod.spec is None or not pod.spec.node_name or not pod.status:
        return None
    asked = {c.name: c.resources.requests if c.resources else None for c in pod.spec.containers or ()}
    for status in statuses or ():
        if status.resources is not None and (
            (status.resources.requests or None) != (asked.get(status.name) or None)
            or (status.allocated_resources and status.allocated_resources != asked.get(status.name))
        ):
            return [*(statuses or ()), *(pod.status.init_container_statuses or ())]
    for one in pod.status.init_container_statuses or ():
        if one.resources is not None and (one.resources.requests or one.allocated_resources):
            return [*(statuses or ()), *(pod.status.init_container_statuses or ())]
    return None
