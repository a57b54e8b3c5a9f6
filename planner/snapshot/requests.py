"""Requests for slack from workloads and CapacityBuffers, and ProvisioningRequests, as values with their own
dictionaries resolved. Decides their canonical order, by object, and by namespace and name. Raises SnapshotError.
Source: `protos/trimtab/v1/snapshot.proto`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from trimtab.planner.model.execution import asking
from trimtab.planner.model.values import CapacityPodSet, CapacityRequest, PodRequirements, SlackRequest
from trimtab.planner.snapshot.checks import Row, SnapshotError, check_unique
from trimtab.planner.snapshot.columns import LabelSets
from trimtab.planner.snapshot.dictionaries import read_label_sets, read_resources, read_strings
from trimtab.planner.snapshot.pod_specs import read_pod_specs
from trimtab.v1 import snapshot_pb2 as pb

MOST_PODS: Final = 100_000
"""Most pods of a set."""
MOST_SETS: Final = 32
"""Most sets of a request, as the API has it."""
_SLACK: Final = "slack_requests"
_SLACK_ROWS: Final = f"{_SLACK}.requests"
_CAPACITY: Final = "capacity_requests"
_CAPACITY_ROWS: Final = f"{_CAPACITY}.requests"


class RequestDictionary(NamedTuple):
    """The message's dictionary: resources, strings, specs, label_sets, all as numbered in the message."""

    resources: Sequence[str]
    strings: Sequence[str]
    specs: Sequence[PodRequirements]
    label_sets: LabelSets


def read_slack_requests(message: pb.SlackRequests) -> tuple[SlackRequest, ...]:
    """Return the requests sorted by object."""
    if not message.requests:
        return ()
    dictionary = read_dictionary(message.dictionary, _SLACK)
    row = Row(_SLACK_ROWS, dictionary.strings)
    check_unique([one.object for one in message.requests], _SLACK_ROWS, "object")
    found = []
    for row.index, one in enumerate(asking(message.requests)):
        row.needed(one.object, "object")
        found.append(SlackRequest(one.object, one.problem) if one.problem else _slack_request(row, one, dictionary))
    return tuple(sorted(found, key=lambda one: one.object))


def read_capacity_requests(message: pb.CapacityRequests) -> tuple[CapacityRequest, ...]:
    """Return the requests sorted by namespace and name."""
    if not message.requests:
        return ()
    dictionary = read_dictionary(message.dictionary, _CAPACITY)
    row = Row(_CAPACITY_ROWS, dictionary.strings)
    check_unique([f"{one.namespace}/{one.name}" for one in message.requests], _CAPACITY_ROWS, "name")
    found = []
    for row.index, one in enumerate(asking(message.requests)):
        found.append(_capacity_request(row, one, dictionary))
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name)))


def read_dictionary(message: pb.PodDictionary, table: str) -> RequestDictionary:
    """Return the dictionary of a table of requests."""
    whole = pb.ClusterSnapshot(strings=message.strings, resources=message.resources)
    try:
        strings, resources = read_strings(whole), read_resources(whole)
        specs = read_pod_specs(message.pod_specs, strings, resources)
        return RequestDictionary(resources, strings, specs, read_label_sets(message.label_sets, strings))
    except SnapshotError as error:
        raise SnapshotError(f"{table}.dictionary.{error.table}", error.row, error.field, error.problem) from None


def _slack_request(row: Row, one: pb.SlackRequest, dictionary: RequestDictionary) -> SlackRequest:
    return SlackRequest(
        object=one.object,
        namespace=row.name(one.namespace, "namespace"),
        spec=spec_of(row, one.spec, dictionary),
        labels=labels_of(row, one.label_set, dictionary),
        scale=_given(row, one, "scale"),
        amount=one.amount,
        replicas=_given(row, one, "replicas"),
        percentage=_given(row, one, "percentage"),
        limits=_limits(row, one.limits, dictionary.resources),
        is_gang=one.is_gang,
        topology_key=row.text(one.topology_key, "topology_key") if one.is_gang else "",
    )


def _given(row: Row, one: pb.SlackRequest, field: str) -> int:
    """Return an optional count, -1 = not given."""
    return row.at_least(getattr(one, field), 0, field) if one.HasField(field) else -1  # type: ignore[arg-type]


def spec_of(row: Row, spec: int, dictionary: RequestDictionary) -> PodRequirements:
    """Return the spec of an index."""
    if not 0 <= spec < len(dictionary.specs):
        row.refuse("spec", f"{spec} is not an index into the specs beside it; there are {len(dictionary.specs)}")
    return dictionary.specs[spec]


def labels_of(row: Row, label_set: int, dictionary: RequestDictionary) -> tuple[tuple[str, str], ...]:
    """Return the labels of an index, sorted by key."""
    sets = dictionary.label_sets
    if not 0 <= label_set < len(sets.offsets) - 1:
        row.refuse(
            "label_set", f"{label_set} is not an index into the label sets beside it; there are {len(sets.offsets) - 1}"
        )
    pairs = sorted(set(sets.pairs(dictionary.strings, label_set)))
    if len({key for key, _ in pairs}) < len(pairs):
        row.refuse("label_set", "a key has two values; give each key once")
    return tuple(pairs)


def _limits(row: Row, limits: Sequence[pb.ResourceAmount], resources: Sequence[str]) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for one in limits:
        if not 0 <= one.resource < len(resources):
            row.refuse("limits.resource", f"{one.resource} is not an index into the resources beside it")
        found[resources[one.resource]] = row.amount(one.amount, "limits.amount")
    return tuple(sorted(found.items()))


def _capacity_request(row: Row, one: pb.CapacityRequest, dictionary: RequestDictionary) -> CapacityRequest:
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
