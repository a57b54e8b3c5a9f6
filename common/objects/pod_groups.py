"""Groups of pods that are scheduled together: which group a pod names, and the rows of groups.

A pod is in a PodGroup of Kubernetes (1.36 and later), in a group of a Workload (1.35), in a PodGroup of Volcano, or in
a group of plain pods of Kueue. The name of a group of the last three begins with what made it and a colon, which no
name in Kubernetes contains. Groups of Volcano and Kueue count pods that have succeeded, the scheduler's do not.

Decides that pods which name a PodGroup or Workload that does not exist wait, as they do in the scheduler, and that pods
which name none of Volcano's are in a group without a minimum. The priority of a group is that of Kubernetes 1.37 and
later: the scheduler of 1.36 does not look at it. Not modelled: groups of groups (CompositePodGroup).
Source: scheduling/v1alpha1, v1alpha2, v1beta1 types; volcano.sh/apis; kueue pkg/controller/jobs/pod.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trimtab.common.kubernetes.kinds.controllers import PodTemplateSpec
from trimtab.common.kubernetes.kinds.pod_groups import (
    GangPolicy,
    GroupDisruption,
    PodGroupPolicy,
    PodGroupSpec,
    PodGroupTemplate,
    SchedulingPodGroup,
    SchedulingWorkload,
    VolcanoPodGroup,
    WorkloadTemplateRef,
    is_of_1_36,
)
from trimtab.common.kubernetes.kinds.pods import Pod, PodMeta, PodSpec
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.registry import VOLCANO_POD_GROUP
from trimtab.common.kubernetes.signals import gangs
from trimtab.common.objects.owners import WORKLOADS, replicas
from trimtab.common.objects.slack_annotation import slack_annotation
from trimtab.common.objects.times import timestamp
from trimtab.v1 import snapshot_pb2 as pb

Key = tuple[str, str]
"""Namespace, and name of the group."""
WORKLOAD, VOLCANO, KUEUE = "workload:", "volcano:", "kueue:"
KUEUE_LABEL: Final = gangs.KUEUE_GROUP.key
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_WHOLE = ("PodGroup", "all")
_MOST: Final = 2**31 - 1
GROUP_KINDS: Final = ("PodGroup", VOLCANO_POD_GROUP, "Workload", *WORKLOADS)
"""Kinds that groups follow from; a Workload may name a controller of these kinds."""


class GroupMember(NamedTuple):
    """A pod of a group. has_succeeded : it will not run again; total : pods of its group by Kueue's annotation, ""."""

    has_succeeded: bool
    total: str


class PodGroupObjects(NamedTuple):
    """The objects that groups follow from, by (namespace, name). controller : that of a kind, namespace and name."""

    groups: Mapping[Key, SchedulingPodGroup] = MappingProxyType({})
    volcano: Mapping[Key, VolcanoPodGroup] = MappingProxyType({})
    workloads: Mapping[Key, SchedulingWorkload] = MappingProxyType({})
    controller: Callable[[str, str, str], "GroupController | None"] = lambda *_: None


class GroupController(NamedTuple):
    """The controller that makes the pods of a workload. replicas : how many; None = not known."""

    replicas: int | None
    template: PodTemplateSpec | None


def group_name(pod: Pod) -> str:
    """Return the name of a pod's group; "" if it is in none."""
    spec, meta = pod.spec or PodSpec(), pod.metadata or PodMeta()
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return spec.scheduling_group.pod_group_name
    reference = spec.workload_ref
    if reference is not None and reference.name:
        parts = (reference.name, reference.pod_group or "", reference.pod_group_replica_key or "")
        return WORKLOAD + ":".join(parts).rstrip(":")
    if meta.annotations is not None and meta.annotations.volcano_group:
        return VOLCANO + meta.annotations.volcano_group
    return kueue_group((meta.labels or {}).get(KUEUE_LABEL))


def kueue_group(label: str | None) -> str:
    """Return the name of a group of Kueue's, by the label of its pods."""
    return KUEUE + label if label else ""


def member_of(pod: Pod, phase: int) -> GroupMember:
    """Return a pod as a member. phase : `PodPhase.Code`."""
    annotations = pod.metadata.annotations if pod.metadata else None
    return GroupMember(phase == pb.PodPhase.SUCCEEDED, (annotations and annotations.kueue_total) or "")


def follows_from_pods(group: str) -> bool:
    """Return whether the row of a group follows from its pods, too."""
    return group.startswith((VOLCANO, KUEUE, WORKLOAD))


class PodGroupReader:
    """Reads groups. members : pods by group; string : index of a text; template : the row of a pod of a template, by
    namespace and name.
    """

    def __init__(
        self,
        members: Mapping[Key, Sequence[GroupMember]],
        objects: PodGroupObjects,
        string: Callable[[str], int],
        template: Callable[[PodTemplateSpec, str, str], pb.TemplatePod],
    ) -> None:
        self._members, self._objects = members, objects
        self._string, self._template = string, template

    def rows(self, keys: Iterable[Key]) -> list[pb.PodGroup]:
        """Return the rows of those groups that exist, sorted."""
        rows = []
        for key in sorted(set(keys)):
            row = pb.PodGroup(namespace=key[0], name=key[1])
            try:
                if not self._read(row):
                    continue
            except FieldError as error:
                row = pb.PodGroup(namespace=key[0], name=key[1], object=row.object)
                row.problem = f"{row.object or f'PodGroup {key[0]}/{key[1]}'}: {error}"
            rows.append(row)
        return rows

    def _read(self, row: pb.PodGroup) -> bool:
        """Complete a row; return whether there is such a group."""
        if not follows_from_pods(row.name):
            return self._of_kubernetes(row)
        members = self._members.get((row.namespace, row.name))
        if not members:
            return False
        if row.name.startswith(WORKLOAD):
            return self._of_workload(row)
        if row.name.startswith(VOLCANO):
            self._of_volcano(row, members)
        else:
            _add_kueue(row, members)
        return True

    def _of_kubernetes(self, row: pb.PodGroup) -> bool:
        group = self._objects.groups.get((row.namespace, row.name))
        if group is None:
            return False
        spec = group.spec or PodGroupSpec()
        created = timestamp(group.metadata.creation_timestamp if group.metadata else None)
        if created is not None:
            row.create_time.CopyFrom(created)
        row.slack = slack_annotation(group) or ""
        with below("spec"):
            _add_policy(row, spec.scheduling_policy, "schedulingPolicy")
            self._add_rules(row, spec)
        if spec.priority is not None and not is_of_1_36(group.api_version, spec.disruption_mode):
            row.priority = spec.priority
        name = _reference(spec).workload_name
        if name:
            self._add_expected(row, self._objects.workloads.get((row.namespace, name)))
        return True

    def _of_workload(self, row: pb.PodGroup) -> bool:
        """Read a group of a Workload of Kubernetes 1.35; it is there if the Workload has it."""
        name, _, rest = row.name.removeprefix(WORKLOAD).partition(":")
        workload = self._objects.workloads.get((row.namespace, name))
        row.object = f"Workload/{row.namespace}/{name}"
        wanted, _, replica = rest.partition(":")
        found = [template for template in _templates(workload) if template.name == wanted]
        if not found:
            return False
        with below(f"spec.podGroups, {wanted}"):
            _add_policy(row, found[0].policy or found[0].scheduling_policy, "policy")
            self._add_rules(row, found[0])
        if not replica:  # replicas of a group share the pods of its workload
            self._add_expected(row, workload)
        return True

    def _of_volcano(self, row: pb.PodGroup, members: Sequence[GroupMember]) -> None:
        name = row.name.removeprefix(VOLCANO)
        row.object = f"{VOLCANO_POD_GROUP}/{row.namespace}/{name}"
        group = self._objects.volcano.get((row.namespace, name))
        row.slack = slack_annotation(group) or ""
        with below("spec.minMember"):
            _add_minimum(row, (group.spec.min_member if group and group.spec else None) or 0, members)

    def _add_rules(self, row: pb.PodGroup, spec: PodGroupSpec | PodGroupTemplate) -> None:
        """Add topology and disruption mode, and check the priority."""
        keys = (spec.scheduling_constraints.topology if spec.scheduling_constraints else None) or ()
        if len(keys) > 1:
            raise FieldError("schedulingConstraints.topology", f"there are {len(keys)}", "give at most 1")
        if keys:
            if not keys[0].key:
                raise FieldError("schedulingConstraints.topology[0].key", "it is missing", "name a label of nodes")
            row.topology_key = self._string(keys[0].key)
        mode = spec.disruption_mode
        if isinstance(mode, GroupDisruption):
            mode = "all" if mode.all is not None else "single"
        if mode:
            is_whole = mode in _WHOLE
            row.disruption_mode = pb.PodGroupDisruptionMode.POD_GROUP if is_whole else pb.PodGroupDisruptionMode.POD
        if spec.priority is not None and not -(2**31) <= spec.priority <= _MOST:
            raise FieldError("priority", f"{spec.priority} is out of range", "give a 32-bit integer")

    def _add_expected(self, row: pb.PodGroup, workload: SchedulingWorkload | None) -> None:
        """Add how many pods a workload makes, and their template, if all pods of its controller are in this group."""
        reference = workload.spec.controller_ref if workload and workload.spec else None
        if reference is None or len(_templates(workload)) != 1:
            return
        found = self._objects.controller(reference.kind or "", row.namespace, reference.name or "")
        if found is None:
            return
        if found.replicas is not None and 0 <= found.replicas <= _MOST:
            row.desired_count = found.replicas
        if found.template is not None and found.template.spec is not None:
            row.pod_template.CopyFrom(self._template(found.template, row.namespace, row.name))


def _add_kueue(row: pb.PodGroup, members: Sequence[GroupMember]) -> None:
    totals = {member.total for member in members}
    row.object = f"Pod/{row.namespace}/{row.name.removeprefix(KUEUE)}"
    if len(totals) > 1 or not all(_COUNT.fullmatch(total) for total in totals):
        shown = ", ".join(repr(total) for total in sorted(totals))
        problem = f"{shown} is not one count for all pods of the group"
        raise FieldError("metadata.annotations, kueue.x-k8s.io/pod-group-total-count", problem, "give the same number")
    total = int(totals.pop())
    _add_minimum(row, total, members)
    row.desired_count = max(total - sum(member.has_succeeded for member in members), 0)


def _add_policy(row: pb.PodGroup, policy: PodGroupPolicy | None, field: str) -> None:
    if policy is None or (policy.basic is None) is (policy.gang is None):
        given = "both" if policy is not None and policy.gang is not None else "neither"
        raise FieldError(field, f"{given} of `basic` and `gang` is given", "give one of the two")
    row.policy = pb.PodGroupPolicy.BASIC
    if policy.gang is not None:
        least = (policy.gang or GangPolicy()).min_count or 0
        if not 1 <= least <= _MOST:
            raise FieldError(f"{field}.gang.minCount", f"{least} is not a count of pods", "give at least 1")
        row.policy, row.min_count = pb.PodGroupPolicy.GANG, least


def _add_minimum(row: pb.PodGroup, least: int, members: Sequence[GroupMember]) -> None:
    """Make the group a gang of so many pods, less those that have succeeded; without any, its pods are on their own."""
    if not 0 <= least <= _MOST:
        raise FieldError("", f"{least} is not a count of pods", "give at least 0")
    least -= sum(member.has_succeeded for member in members)
    row.policy = pb.PodGroupPolicy.GANG if least > 0 else pb.PodGroupPolicy.BASIC
    row.min_count = max(least, 0)


def _reference(spec: PodGroupSpec) -> WorkloadTemplateRef:
    if spec.workload_ref is not None:
        return spec.workload_ref
    return (spec.pod_group_template_ref and spec.pod_group_template_ref.workload) or WorkloadTemplateRef()


def _templates(workload: SchedulingWorkload | None) -> list[PodGroupTemplate]:
    spec = workload.spec if workload else None
    return [*(spec.pod_group_templates or ()), *(spec.pod_groups or ())] if spec else []


def group_objects(objects: Mapping[str, Mapping[Key, Any]]) -> PodGroupObjects:
    """Return the objects of a cluster, by kind and key, that groups follow from."""

    def controller(kind: str, namespace: str, name: str) -> GroupController | None:
        found = objects[kind].get((namespace, name)) if kind in WORKLOADS else None
        if found is None:
            return None
        return GroupController(replicas(found)[0], found.spec.template if found.spec else None)

    return PodGroupObjects(objects["PodGroup"], objects[VOLCANO_POD_GROUP], objects["Workload"], controller)
