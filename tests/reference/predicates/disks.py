"""VolumeRestrictions, inline disks, by checking every pod of the node. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import PodRow
from tests.reference.predicates.durations import FOR_GOOD
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason

HOLDS = {Reason.VOLUME_RESTRICTED: FOR_GOOD}


def disks_conflict(pod: PodRow, other: PodRow) -> bool:
    mine, theirs = pod.spec, other.spec
    every = {*theirs.exclusive_disks, *theirs.read_only_disks}
    return bool(every & set(mine.exclusive_disks)) or bool(set(mine.read_only_disks) & set(theirs.exclusive_disks))


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    in_use = any(disks_conflict(pod, other) for other in cluster.pods_on(name))
    return {Reason.VOLUME_RESTRICTED} if in_use else set()
