"""Requests for slack from workloads and CapacityBuffers, as values with their own dictionary resolved. Decides their
canonical order, by object; never how much room they request. Raises SnapshotError. Source:
`protos/trimtab/v1/snapshot.proto`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from trimtab.planner.model.execution import asking
from trimtab.planner.model.values import PodRequirements, SlackRequest
from trimtab.planner.snapshot.checks import Row, SnapshotError, check_unique
from trimtab.planner.snapshot.columns import LabelSets
from trimtab.planner.snapshot.dictionaries import read_label_sets, read_resources, read_strings
from trimtab.planner.snapshot.pod_specs import read_pod_specs
from trimtab.v1 import snapshot_pb2 as pb

_TABLE: Final = "slack_requests"
_REQUESTS: Final = f"{_TABLE}.requests"


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
    dictionary = read_dictionary(message.dictionary, _TABLE)
    row = Row(_REQUESTS, dictionary.strings)
    check_unique([one.object for one in message.requests], _REQUESTS, "object")
    found = []
    for row.index, one in enumerate(asking(message.requests)):
        row.needed(one.object, "object")
        found.append(SlackRequest(one.object, one.problem) if one.problem else _request(row, one, dictionary))
    return tuple(sorted(found, key=lambda one: one.object))


def read_dictionary(message: pb.PodDictionary, table: str) -> RequestDictionary:
    """Return the dictionary of a table of requests."""
    whole = pb.ClusterSnapshot(strings=message.strings, resources=message.resources)
    try:
        strings, resources = read_strings(whole), read_resources(whole)
        specs = read_pod_specs(message.pod_specs, strings, resources)
        return RequestDictionary(resources, strings, specs, read_label_sets(message.label_sets, strings))
    except SnapshotError as error:
        raise SnapshotError(f"{table}.dictionary.{error.table}", error.row, error.field, error.problem) from None


def _request(row: Row, one: pb.SlackRequest, dictionary: RequestDictionary) -> SlackRequest:
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
    entries = range(int(sets.offsets[label_set]), int(sets.offsets[label_set + 1]))
    pairs = sorted({(dictionary.strings[sets.keys[at]], dictionary.strings[sets.values[at]]) for at in entries})
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
