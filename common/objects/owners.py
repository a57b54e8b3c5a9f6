"""Controllers of pods: the object that controls a pod, and its numbers of desired and present pods.

The chain ends at the direct controller (ReplicaSet, StatefulSet, ReplicationController, Job, DaemonSet), as in the
rules for draining; a Deployment above a ReplicaSet is ignored. Source: apimachinery GetControllerOf; Cluster
Autoscaler drainability rule replicacount and planner.filterOutRecreatedPods.
"""

import hashlib
import re
from collections.abc import Iterable, Set
from typing import Final

from trimtab.common.kubernetes.kinds.controllers import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trimtab.common.kubernetes.kinds.metadata import LabelSelector, ObjectMeta, OwnerReference
from trimtab.common.kubernetes.kinds.pods import Pod, PodMeta
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.pod_requests import pod_requests
from trimtab.common.kubernetes.quantities import MOST_REQUESTED
from trimtab.common.kubernetes.registry import CONTROLLERS
from trimtab.common.kubernetes.selectors import Requirements, label_selector
from trimtab.common.kubernetes.signals import well_known
from trimtab.common.objects.admission import daemon_pod
from trimtab.common.objects.devices.pod_claims import claimant
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.mounts import mounts_of
from trimtab.common.objects.pod_specs import PodSpecTable, spec_key
from trimtab.v1 import snapshot_pb2 as pb

REVISION_ANNOTATION = well_known.DEPLOYMENT_REVISION.key
_REVISION = re.compile(r"[0-9]{1,18}", re.ASCII)

Controller = ReplicaSet | StatefulSet | ReplicationController | Deployment | Job | DaemonSet
WORKLOADS: Final = ("Deployment", "StatefulSet", "Job", "ReplicaSet", "ReplicationController")
"""Kinds with pods and replicas; kinds that own others come first."""


def controller_of(references: Iterable[OwnerReference] | None) -> OwnerReference | None:
    """Return the owner that is the controller; None if there is none."""
    for reference in references or ():
        if reference.controller:
            return reference
    return None


def owner_uid(reference: OwnerReference, namespace: str) -> str:
    """Return the uid of an owner; without one, as in files written by hand, one made from kind and name."""
    return reference.uid or made_uid(reference.kind or "", namespace, reference.name or "")


def made_uid(kind: str, namespace: str, name: str) -> str:
    """Return a stable stand-in for a missing uid."""
    return hashlib.sha256(f"{kind}/{namespace}/{name}".encode()).hexdigest()[:32]


def is_daemon_pod(pod: Pod, controller: OwnerReference | None) -> bool:
    """Return whether a pod counts as a DaemonSet's: controlled by one, or annotated so."""
    if controller is not None and controller.kind == "DaemonSet":
        return True
    annotations = pod.metadata.annotations if pod.metadata else None
    return annotations is not None and annotations.daemonset_pod == "true"


def is_mirror_pod(pod: Pod, controller: OwnerReference | None) -> bool:
    """Return whether a pod is the mirror of a static pod, which only its kubelet can remove."""
    annotations = pod.metadata.annotations if pod.metadata else None
    return (annotations is not None and annotations.mirror is not None) or (
        controller is not None and controller.kind == "Node"
    )


def is_of_other_kind(controller: OwnerReference) -> bool:
    """Return whether a controller is of a kind that snapshots do not list. A node, which owns mirror pods, is not."""
    return controller.kind not in CONTROLLERS and controller.kind != "Node"


def is_other_stateful_set(controller: OwnerReference) -> bool:
    """Return whether a controller is a StatefulSet of another API group, which snapshots do not list."""
    return controller.kind == "StatefulSet" and (controller.api_version or "apps/").partition("/")[0] != "apps"


def owner_row(kind: str, controller: Controller, dictionary: Dictionary) -> pb.Owner:
    """Return the row of a controller. Errors: FieldError for negative replicas and for a broken selector."""
    meta = controller.metadata or ObjectMeta()
    namespace = meta.namespace or "default"
    desired, current = replicas(controller)
    for field, count in (("spec", desired), ("status", current)):
        if count is not None and not 0 <= count < 2**31:
            raise FieldError(field, f"{count} replicas are out of range", "give a number from 0 to 2147483647")
    return pb.Owner(
        uid=meta.uid or made_uid(kind, namespace, meta.name or ""),
        kind=kind,
        name=meta.name or "",
        namespace=namespace,
        desired_replicas=desired,
        current_replicas=current,
        api_version=CONTROLLERS[kind].api_version,
        selector=dictionary.selector(_selector(controller)),
        controller=_controller(meta, namespace),
        revision=_revision(meta),
        pod_requests=_template_requests(controller, dictionary),
    )


def _template_requests(controller: Controller, dictionary: Dictionary) -> list[pb.ResourceAmount]:
    """Return the requests of a pod that a controller makes in another one's place. Errors: FieldError."""
    template = controller.spec.template if controller.spec else None
    if isinstance(controller, (DaemonSet, Deployment)) or template is None or template.spec is None:
        return []
    with below("spec.template.spec"):
        found = pod_requests(template.spec)
    return [
        pb.ResourceAmount(resource=dictionary.resource(name), amount=min(amount, MOST_REQUESTED))
        for name, amount in found
    ]


def pod_template(daemon_set: DaemonSet, dictionary: Dictionary, specs: PodSpecTable) -> pb.TemplatePod | None:
    """Return the pod of a DaemonSet on any node; None if its template is not given. Errors: FieldError."""
    template = daemon_set.spec.template if daemon_set.spec else None
    if template is None or template.spec is None:
        return None
    meta = daemon_set.metadata or ObjectMeta()
    namespace, name = meta.namespace or "default", meta.name or ""
    pod = daemon_pod(template, namespace, name)
    with below("spec.template"):
        return template_row(pod, dictionary, specs, f"DaemonSet {namespace}/{name}")


def template_row(pod: Pod, dictionary: Dictionary, specs: PodSpecTable, name: str) -> pb.TemplatePod:
    """Return the row of a pod that a template makes; `name` is for notes. Errors: FieldError."""
    meta = pod.metadata or PodMeta()
    namespace = meta.namespace or "default"
    mounts = mounts_of(pod)
    key, _ = spec_key(pod, mounts)
    spec = specs.index(key, pod, mounts, name, claimant(pod, namespace, meta.name or ""))
    return pb.TemplatePod(namespace=namespace, spec=spec, label_set=dictionary.label_set(meta.labels or {}))


def _selector(controller: Controller) -> Requirements | None:
    """Return which pods a controller claims; None if it has no selector. An empty selector claims none."""
    selector = controller.spec.selector if controller.spec else None
    if isinstance(selector, dict):
        selector = LabelSelector(match_labels=selector)
    with below("spec.selector"):
        return label_selector(selector) or None


def _controller(meta: ObjectMeta, namespace: str) -> str:
    """Return the controller of a controller as "Kind/namespace/name", or ""."""
    above = controller_of(meta.owner_references)
    return f"{above.kind}/{namespace}/{above.name}" if above and above.kind and above.name else ""


def _revision(meta: ObjectMeta) -> int | None:
    """Return the revision of a Deployment that a ReplicaSet holds; None = not known."""
    text = (meta.annotations or {}).get(REVISION_ANNOTATION, "")
    return int(text) if _REVISION.fullmatch(text) else None


def replicas(controller: Controller) -> tuple[int | None, int | None]:
    """Return (wanted, present) pods of a controller; None = unknown. Missing replicas are 1, the API's default."""
    if isinstance(controller, DaemonSet):
        daemon_status = controller.status
        if daemon_status is None:
            return None, None
        return daemon_status.desired_number_scheduled, daemon_status.current_number_scheduled
    if isinstance(controller, Job):
        parallelism = controller.spec.parallelism if controller.spec else None
        active = controller.status.active if controller.status else None
        return 1 if parallelism is None else parallelism, active or 0
    wanted = controller.spec.replicas if controller.spec else None
    present = controller.status.replicas if controller.status else None
    return 1 if wanted is None else wanted, present


def is_listed(row: pb.Owner, owners: Set[str]) -> bool:
    """Return whether a snapshot lists a controller: its uid is in `owners`, which own pods, or it may come to own some
    on the nodes that are there or on new ones.
    """
    return row.uid in owners or row.HasField("pod_template") or (row.kind != "Deployment" and row.desired_replicas > 0)
