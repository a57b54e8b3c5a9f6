"""The pods of pod groups by group, and what such a pod is like. O(pods in groups)."""

from collections import defaultdict
from collections.abc import Mapping

from trimtab.planner.model.values import TemplatePod
from trimtab.planner.snapshot.columns import Snapshot


def members_by_group(snapshot: Snapshot) -> Mapping[tuple[str, str], list[int]]:
    """Return the pods that exist of each group, named by namespace and name, by name; those that have ended count, as
    no other takes their place."""
    pods, found = snapshot.pods, defaultdict[tuple[str, str], list[int]](list)
    for pod, name in zip(pods.group_pod.tolist(), pods.group_name.tolist(), strict=True):
        if not pods.deletion_s[pod]:
            found[snapshot.strings[pods.namespace[pod]], snapshot.strings[name]].append(pod)
    return found


def pod_like(snapshot: Snapshot, pod: int) -> TemplatePod:
    """Return what a pod is like."""
    pods = snapshot.pods
    labels = snapshot.labels_of(int(pods.label_set[pod]))
    return TemplatePod(snapshot.strings[pods.namespace[pod]], snapshot.specs[pods.spec[pod]], labels)
