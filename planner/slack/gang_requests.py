"""Gangs for which room is requested, and what keeps the placeholders of one together.

A pod group asks by its annotation for room for more gangs like it: each of as many pods as its minimum, like its
workload's pod template, or else like the last of its pods by name. A label binds the nodes of a gang to one value by an
affinity of its placeholders to each other, which all decisions know; so a placeholder that moves stays in the domain.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

from trimtab.common.kubernetes.signals import ours
from trimtab.planner.facts.gang_members import members_by_group, template_of
from trimtab.planner.model.values import AffinityTerm, LabelRequirement, PodGroup, SlackRequest
from trimtab.planner.simulation.virtual_rows import VirtualPod
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1.snapshot_pb2 import LabelOperator

GANG_LABEL: Final = ours.SLACK_GANG.key
"""Label of placeholders that have to be in one domain with those that have the same value."""
_NO_PODS: Final = "it has no pods, and no Workload names a controller with a template for them"


class GangRequest(NamedTuple):
    """A request for room, and the pods of each gang; 0 = all that it requests are one gang."""

    request: SlackRequest
    pod_count: int = 0


def requests_of_groups(snapshot: Snapshot) -> Iterator[GangRequest]:
    """Yield the requests of pod groups. O(pods in groups) if there is one."""
    asking = [group for group in snapshot.pod_groups if group.slack]
    members = members_by_group(snapshot) if asking else {}
    for group in asking:
        yield _request(snapshot, group, members.get((group.namespace, group.name), []))


def _request(snapshot: Snapshot, group: PodGroup, members: list[int]) -> GangRequest:
    """Return the request of a group. members : its pods, by name."""
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
