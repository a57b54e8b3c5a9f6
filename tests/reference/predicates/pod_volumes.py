"""ReadWriteOncePod claims and attach limits, by checking every pod. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import PodRow
from tests.reference.predicates.durations import THIS_POD
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason

HOLDS = {Reason.VOLUME_RESTRICTED: THIS_POD, Reason.VOLUME_LIMIT_EXCEEDED: THIS_POD}


def attachments(pod: PodRow) -> set[tuple[str, str]]:
    return {(v.driver, v.handle or v.id) for v in pod.volumes if v.driver}


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    out, node, there = set[int](), cluster.nodes[name], cluster.pods_on(name)
    everywhere = [other for other, _ in cluster.placed()]
    exclusive = {v.id for v in pod.volumes if v.read_write_once_pod}
    if any(v.id in exclusive for other in everywhere for v in other.volumes):
        out.add(Reason.VOLUME_RESTRICTED)
    attached = {one for other in there for one in attachments(other)}
    for driver, limit in node.attach_limits:
        new = [one for one in attachments(pod) - attached if one[0] == driver]
        old = [one for one in attached if one[0] == driver]
        if new and len(new) + len(old) > limit:
            out.add(Reason.VOLUME_LIMIT_EXCEEDED)
    return out
