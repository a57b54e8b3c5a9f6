"""Sets of equal placeholders, Q of them; and those that workloads, pod groups and CapacityBuffers request: one each, or
one for each gang.

Requested room depends on the snapshot's requests and one setting, so it is computed once for all plans of a snapshot. A
pod group asks by its annotation for room for more gangs like it: each of as many pods as its minimum, like its
workload's pod template, or else like the last of its pods by name. A label binds the nodes of a gang to one value by an
affinity of its placeholders to each other, which all decisions know; so a placeholder that moves stays in the domain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals import ours
from trimtab.planner.facts.gangs import members_by_group, template_of
from trimtab.planner.model.values import AffinityTerm, LabelRequirement, PodGroup, SlackRequest
from trimtab.planner.simulation.virtual_rows import NO_KINDS, Kinds, VirtualPod, kinds_of
from trimtab.planner.slack import sizes
from trimtab.planner.slack.sizes import Amounts
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Int64, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.snapshot_pb2 import LabelOperator

MOST: Final = 50_000
"""Most placeholders of one plan; an absurd setting must not exhaust memory."""
GANG_LABEL: Final = ours.SLACK_GANG.key
"""Label of placeholders that have to be in one domain with those that have the same value."""
_BUFFER: Final = "CapacityBuffer/"
"""Prefix of the names of CapacityBuffers; all other objects are workloads."""
_NO_PODS: Final = "it has no pods, and no Workload names a controller with a template for them"


class PlaceholderSet(NamedTuple):
    """Equal placeholders.

    name : prefix of the names of its placeholders; kind : `PlaceholderKind.Code`; pod : each of them as a pod for
    scheduling; number : how many there should be; size : by resource; for_object : "Kind/namespace/name" or ""; pool :
    the requesting pool, "" = the whole cluster; is_gang : all of them have nodes or none; topology_key : label of which
    all these nodes have the same value, "" = none.
    """

    name: str
    kind: "pb.PlaceholderKind.Code.ValueType"
    pod: VirtualPod
    number: int
    size: Amounts
    for_object: str = ""
    pool: str = ""
    is_gang: bool = False
    topology_key: str = ""


class SizeColumns(NamedTuple):
    """Sizes of sets as columns. resources : names, each once; amounts : int64[Q, resources], 0 = none."""

    resources: tuple[str, ...]
    amounts: Int64

    def of(self, resource: str) -> Int64:
        """Return the amounts of one resource : int64[Q]."""
        if resource not in self.resources:
            return np.zeros(len(self.amounts), np.int64)
        column: Int64 = self.amounts[:, self.resources.index(resource)]
        return column

    def taken(self, rows: Int64) -> "SizeColumns":
        """Return the sizes of some sets : int64[n]."""
        return SizeColumns(self.resources, self.amounts[rows])

    def together(self, number: Sequence[int]) -> dict[str, int]:
        """Return the total request of the given number of placeholders of each set, by resource; it may
        exceed 64 bits.
        """
        columns = zip(self.resources, self.amounts.T.tolist(), strict=True)
        totals = {name: sum(map(int.__mul__, column, number)) for name, column in columns}
        return {name: total for name, total in totals.items() if total}

    def and_of(self, other: "SizeColumns") -> "SizeColumns":
        """Return these sizes with those of other sets appended."""
        resources = tuple(dict.fromkeys((*self.resources, *other.resources)))
        amounts = np.zeros((len(self.amounts) + len(other.amounts), len(resources)), np.int64)
        amounts[: len(self.amounts), : len(self.resources)] = self.amounts
        amounts[len(self.amounts) :, [resources.index(name) for name in other.resources]] = other.amounts
        return SizeColumns(resources, amounts)


def size_columns(sets: Sequence[PlaceholderSet]) -> SizeColumns:
    """Return the sizes of sets as columns. O(sets)."""
    resources = tuple(dict.fromkeys(name for entry in sets for name in entry.size))
    rows = [[entry.size.get(name, 0) for name in resources] for entry in sets]
    return SizeColumns(resources, np.array(rows, np.int64).reshape(len(sets), len(resources)))


class RequestingObject(NamedTuple):
    """A workload, pod group or CapacityBuffer; number : of pods for which it requests room; problem : why no room
    is kept, or ""; gang_count : gangs of these pods, 0 = none; topology_key : label that all nodes of a gang share.
    """

    name: str
    number: int
    problem: str = ""
    gang_count: int = 0
    topology_key: str = ""


class ObjectRequests(NamedTuple):
    """The room requested by objects.

    smaller_buffers : as in `SlackSettings`; sets : those with at least one required placeholder, by
    name; sizes, kinds : of the sets; number : of placeholders in total; desired : amount by resource; problems : for
    people; objects : all, by name.
    """

    smaller_buffers: bool
    sets: tuple[PlaceholderSet, ...]
    sizes: SizeColumns
    kinds: Kinds
    number: int
    desired: Amounts
    problems: tuple[str, ...]
    objects: tuple[RequestingObject, ...]


NO_OBJECT_REQUESTS: Final = ObjectRequests(False, (), size_columns(()), NO_KINDS, 0, {}, (), ())


@dataclass(frozen=True)
class ObjectRequestsKey(SnapshotKey[ObjectRequests]):
    """The room requested by objects. smaller_buffers : as in `SlackSettings`."""

    smaller_buffers: bool


class GangRequest(NamedTuple):
    """A request for room, and the pods of each gang; 0 = all that it requests are one gang."""

    request: SlackRequest
    pod_count: int = 0


def object_requests(snapshot: Snapshot, smaller_buffers: bool, cache: SnapshotCache) -> ObjectRequests:
    """Return the room requested by the objects of a snapshot, cached or computed. smaller_buffers : as in
    `SlackSettings`.
    """
    return cache.get(
        ObjectRequestsKey(smaller_buffers),
        snapshot,
        lambda view: build_object_requests(view.slack_requests, smaller_buffers, list(requests_of_groups(view))),
    )


def build_object_requests(
    requests: Sequence[SlackRequest], smaller_buffers: bool, groups: Sequence[GangRequest] = ()
) -> ObjectRequests:
    """Return the room for given requests. smaller_buffers : as in `SlackSettings`; groups : requests of pod groups.
    O(requests + gangs).
    """
    of_requests: list[PlaceholderSet] = []
    problems: list[str] = []
    objects: list[RequestingObject] = []
    for request, pod_count in sorted([*map(GangRequest, requests), *groups], key=lambda asks: asks.request.object):
        size = dict(request.spec.requests)
        try:
            number = _number(request, size, smaller_buffers)
            sets = list(_sets(request, size, number, pod_count))
        except ValueError as error:
            problems.append(f"{request.object}: {error}")
            objects.append(RequestingObject(request.object, 0, str(error)))
            continue
        gang_count = number if pod_count else int(number > 0)
        of_gangs = (gang_count, request.topology_key) if request.is_gang else ()
        objects.append(RequestingObject(request.object, number * max(pod_count, 1), "", *of_gangs))
        of_requests += sets
    columns = size_columns(of_requests)
    return ObjectRequests(
        smaller_buffers,
        tuple(of_requests),
        columns,
        kinds_of(tuple([entry.pod for entry in of_requests])),
        sum(entry.number for entry in of_requests),
        columns.together([entry.number for entry in of_requests]),
        tuple(problems),
        tuple(objects),
    )


def _number(request: SlackRequest, size: Amounts, smaller_buffers: bool) -> int:
    """Return for how many pods an object requests room. Raises ValueError with the problem."""
    if request.problem:
        raise ValueError(request.problem)
    if not request.object.startswith(_BUFFER):
        return sizes.copies(request.amount, request.scale)
    limit = sizes.most_within(dict(request.limits), size)
    return sizes.buffered(request.replicas, request.percentage, request.scale, limit, smaller_buffers)


def _sets(request: SlackRequest, size: Amounts, number: int, pod_count: int) -> Iterator[PlaceholderSet]:
    """Yield the sets of placeholders of a request. number : of pods, or of gangs of `pod_count` pods each, if it is not
    0. Of more placeholders than a plan has, only so many are yielded that there are too many. Raises ValueError."""
    is_buffer = request.object.startswith(_BUFFER)
    kind = pb.PlaceholderKind.CAPACITY_BUFFER if is_buffer else pb.PlaceholderKind.WORKLOAD
    if number and not request.is_gang:
        pod = VirtualPod(request.namespace, request.spec, request.labels)
        yield PlaceholderSet(request.object, kind, pod, number, size, request.object)
    elif number:
        each, gang_count = (pod_count, number) if pod_count else (number, 1)
        for gang in range(1, min(gang_count, MOST // each + 1) + 1):
            name = f"{request.object}:{gang}"
            pod = placeholder_of_gang(request, name)
            yield PlaceholderSet(name, kind, pod, each, size, request.object, "", True, request.topology_key)


def requests_of_groups(snapshot: Snapshot) -> Iterator[GangRequest]:
    """Yield the requests of pod groups. O(pods in groups) if there is one."""
    asking = [group for group in snapshot.pod_groups if group.slack]
    members = members_by_group(snapshot) if asking else {}
    for group in asking:
        yield _request(snapshot, group, members.get((group.namespace, group.name), []))


def _request(snapshot: Snapshot, group: PodGroup, members: list[int]) -> GangRequest:
    like = template_of(snapshot, group, members)
    if like is None:
        return GangRequest(SlackRequest(group.object, _NO_PODS))
    request = SlackRequest(
        object=group.object,
        namespace=like.namespace,
        spec=like.spec,
        labels=like.labels,
        amount=group.slack,
        is_gang=True,
        topology_key=group.topology_key,
    )
    return GangRequest(request, max(group.min_count, 1))


def placeholder_of_gang(request: SlackRequest, set_name: str) -> VirtualPod:
    """Return a placeholder of a gang, kept in one domain with the others. Raises ValueError with the problem."""
    spec, labels = request.spec, request.labels
    if request.topology_key:
        if spec.pod_affinity:
            # The first of several pods with an affinity to each other fits only where no other affinity is satisfied.
            raise ValueError("its pods have an affinity to other pods: room in one domain cannot be kept for them")
        mark = (GANG_LABEL, blake2b(set_name.encode(), digest_size=8).hexdigest())
        labels = tuple(sorted((*(pair for pair in labels if pair[0] != GANG_LABEL), mark)))
        alike = (LabelRequirement(GANG_LABEL, LabelOperator.IN, (mark[1],)),)
        spec = spec._replace(pod_affinity=(AffinityTerm(alike, (), None, request.topology_key),))
    return VirtualPod(request.namespace, spec, labels)
