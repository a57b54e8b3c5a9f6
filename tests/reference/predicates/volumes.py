"""ReadWriteOncePod claims and attach limits, by checking every pod. Source: kube-scheduler v1.34.3."""

from tests.builders.rows import NodeRow, PodRow
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def attachments(pod: PodRow) -> set[tuple[str, str]]:
    return {(v.driver, v.handle or v.id) for v in pod.volumes if v.driver}


def refusals(pod: PodRow, node: NodeRow, there: list[PodRow], everywhere: list[PodRow]) -> set[int]:
    out = set()
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
