"""NodeVolumeLimits, its check of drivers. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import PodRow
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    present = cluster.nodes[name].volume_drivers
    required = {volume.required_driver for volume in pod.volumes if volume.required_driver}
    return {Reason.CSI_DRIVER_MISSING} if present is not None and required - set(present) else set()
