"""ProvisioningRequests as values with their own dictionary resolved. Decides their canonical order, by namespace and
name; never whether there is room for them. Raises SnapshotError. Source: `protos/trimtab/v1/snapshot.proto`.
"""

from typing import Final

from trimtab.planner.model.execution import asking
from trimtab.planner.model.values import CapacityPodSet, CapacityRequest
from trimtab.planner.snapshot.checks import Row, check_unique
from trimtab.planner.snapshot.slack_requests import RequestDictionary, labels_of, read_dictionary, spec_of
from trimtab.v1 import snapshot_pb2 as pb

MOST_PODS: Final = 100_000
"""Most pods of a set."""
MOST_SETS: Final = 32
"""Most sets of a request, as the API has it."""
_TABLE: Final = "capacity_requests"
_REQUESTS: Final = f"{_TABLE}.requests"


def read_capacity_requests(message: pb.CapacityRequests) -> tuple[CapacityRequest, ...]:
    """Return the requests sorted by namespace and name."""
    if not message.requests:
        return ()
    dictionary = read_dictionary(message.dictionary, _TABLE)
    row = Row(_REQUESTS, dictionary.strings)
    check_unique([f"{one.namespace}/{one.name}" for one in message.requests], _REQUESTS, "name")
    found = []
    for row.index, one in enumerate(asking(message.requests)):
        found.append(_request(row, one, dictionary))
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name)))


def _request(row: Row, one: pb.CapacityRequest, dictionary: RequestDictionary) -> CapacityRequest:
    if not one.problem and not one.pod_sets:
        row.refuse("pod_sets", "it is empty; give at least one set, or the problem")
    if len(one.pod_sets) > MOST_SETS:
        row.refuse("pod_sets", f"there are {len(one.pod_sets)}; give at most {MOST_SETS}")
    return CapacityRequest(
        namespace=row.name(one.namespace, "namespace"),
        name=row.name(one.name, "name"),
        uid=one.uid,
        created_s=row.time_s(one, "create_time"),
        class_name=row.needed(one.class_name, "class_name"),
        problem=one.problem,
        pod_sets=() if one.problem else tuple([_pod_set(row, each, dictionary) for each in one.pod_sets]),
        max_seek_s=row.seconds(one.max_seek_time, "max_seek_time", 1) if one.HasField("max_seek_time") else 0,
        no_retry=one.no_retry,
        processor_instance=one.processor_instance,
        provisioned_s=row.time_s(one, "provision_time"),
        failed=one.failed,
        booking_expired=one.booking_expired,
        capacity_revoked=one.capacity_revoked,
    )


def _pod_set(row: Row, one: pb.CapacityPodSet, dictionary: RequestDictionary) -> CapacityPodSet:
    if not 1 <= one.count <= MOST_PODS:
        row.refuse("pod_sets.count", f"{one.count} is not a number of pods; use 1 to {MOST_PODS}")
    return CapacityPodSet(spec_of(row, one.spec, dictionary), labels_of(row, one.label_set, dictionary), one.count)
