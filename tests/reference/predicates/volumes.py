"""VolumeBinding and VolumeZone, volume by volume. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import NodeRow, PodRow
from tests.reference.classes.selectors import term_matches
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason
from trimtab.v1.snapshot_pb2 import VolumeState

GA = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES = [*GA, *GA.values()]


def zone_excludes(pod: PodRow, node: NodeRow) -> bool:
    if not any(key in node.labels for key in ZONES):
        return False
    for volume in pod.volumes:
        for key, value in volume.zone_labels:
            parts = [part.strip() for part in value.split("__")]
            if key not in ZONES or "" in parts:
                continue
            own = node.labels.get(key, node.labels.get(GA.get(key, key)))
            if own not in parts:
                return True
    return False


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    node, out = cluster.nodes[name], set[int]()
    for volume in pod.volumes:
        place = volume.node_affinity
        unusable = volume.state in (VolumeState.MISSING, VolumeState.UNBOUND_IMMEDIATE)
        if unusable or (place is not None and not any(term_matches(term, node) for term in place)):
            out.add(Reason.VOLUME_NOT_BINDABLE)
    if zone_excludes(pod, node):
        out.add(Reason.VOLUME_ZONE_MISMATCH)
    return out
