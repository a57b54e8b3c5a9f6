"""The pods of pod groups by group, and what such a pod is like. O(pods in groups)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from trimtab.planner.model.values import PodGroup, TemplatePod
from trimtab.planner.snapshot.columns import Snapshot


def members_by_group(snapshot: Snapshot) -> Mapping[tuple[str, str], list[int]]:
    """Return the pods that exist of each group, named by namespace and name, by name; those that have ended count, as
    no other takes their place."""
    pods, found = snapshot.pods, defaultdict[tuple[str, str], list[int]](list)
    for pod, name in zip(pods.group_pod.tolist(), pods.group_name.tolist(), strict=True):
        if not pods.deletion_s[pod]:
            found[snapshot.strings[pods.namespace[pod]], snapshot.strings[name]].append(pod)
    return found


def template_of(snapshot: Snapshot, group: PodGroup, members: Sequence[int]) -> TemplatePod | None:
    """Return what a new pod of a group is like: its workload's template, or else the last of its pods by name; None =
    not known. members : its pods, by name."""
    return group.pod_template or (_pod_like(snapshot, members[-1]) if members else None)


def _pod_like(snapshot: Snapshot, pod: int) -> TemplatePod:
    pods = snapshot.pods
    labels = snapshot.labels_of(int(pods.label_set[pod]))
    return TemplatePod(snapshot.strings[pods.namespace[pod]], snapshot.specs[pods.spec[pod]], labels)
