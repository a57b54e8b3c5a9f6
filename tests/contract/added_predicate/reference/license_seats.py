"""License seats, by counting the pods of the node."""

from tests.builders.rows import PodRow
from tests.reference.predicates.durations import FOR_GOOD
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason

HOLDS = {Reason.LICENSE_SEATS_TAKEN: FOR_GOOD}


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    key = "example.com/license"
    users = [one for one in cluster.pods_on(name) if key in pod.labels and one.labels.get(key) == pod.labels[key]]
    return {Reason.LICENSE_SEATS_TAKEN} if len(users) >= 2 else set()
