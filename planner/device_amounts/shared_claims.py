"""Claims that are not of one pod on one node: those that pods share, and those for devices that several nodes reach.

One rule holds for all of them: once a claim has devices, its pods go where these can be reached, and take nothing more;
a claim that has none gets them with the first of its pods. Which pod is first is the scheduler's order: by priority,
then age. A claim with one user is as its own: when that pod is deleted, nobody uses the claim, and the next pod gets it
with new devices. Any other claim that is allocated keeps its devices.

Devices of one node are amounts of it, so where a claim gets some is known when its first pod has a node. That pod leads
those with which it shares claims: it requests what all of them need, devices included, and the others request nothing
and go where it is. So all of them find room on one node, or none does. Pods that are all on one node keep none of the
devices when all of them leave, and are moved in the same way. Pods that wait and pods that have a place are not planned
together, nor are pods of different priorities or schedulers, pods with required affinity, and pods of DaemonSets: what
they share stays shared.

Devices that several nodes reach (`ReachedDevices`) are no amount of any node, and are given away before nodes are
chosen. O(users of such claims + results), microseconds each.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import allocated_devices, named_claims, node_of
from trimtab.planner.device_amounts.device_facts import DeviceFacts
from trimtab.planner.device_amounts.groups import linked_sets
from trimtab.planner.device_amounts.node_pools import DriverTable
from trimtab.planner.device_amounts.pod_claims import ClaimDemand, DeviceFilter
from trimtab.planner.devices.model import DeviceClaim, DeviceId, NodeSelection
from trimtab.planner.devices.pools import reaches
from trimtab.planner.model.values import (
    DEVICE_RESOURCE,
    FOLLOWS,
    LEADS,
    ExtendedDeviceRequest,
    LabelRequirement,
    NodeAffinityTerm,
    PodClaim,
    PodRequirements,
)
from trimtab.planner.snapshot.columns import (
    ALLOCATED,
    BEING_DELETED,
    BINDING_FAILED,
    FLAG_DAEMON,
    FLAG_GATED,
    FLAG_MIRROR,
    NO_NODE,
    Bool,
    Int32,
    Snapshot,
)
from trimtab.v1.snapshot_pb2 import LabelOperator

NONE_LEFT: Final = f"{DEVICE_RESOURCE}reached"
"""The resource that no node has, requested by pods for which no device that several nodes reach is left."""


class OwnSpecs(NamedTuple):
    """specs : those of the snapshot, then further ones; spec : int32[P] into them; leader_of : of pods that follow
    another one, its spec by theirs."""

    specs: tuple[PodRequirements, ...]
    spec: Int32
    leader_of: Mapping[PodRequirements, PodRequirements]

    def changed(self, spec_by_row: Mapping[int, PodRequirements]) -> "OwnSpecs":
        """Return the specs with others for some pods."""
        number: dict[PodRequirements, int] = {}
        column = self.spec.copy()
        for row, spec in spec_by_row.items():
            if spec != self.specs[column[row]]:
                column[row] = number.setdefault(spec, len(self.specs) + len(number))
        return self._replace(specs=(*self.specs, *number), spec=column)


def with_own_claims(
    snapshot: Snapshot, *, is_together: bool = True, reached: "ReachedDevices | None" = None
) -> OwnSpecs:
    """Return the specs of pods, with what claims that are not of one pod and node are for each of them. O(P) if some
    spec has such claims. is_together : pods that share a claim without devices are planned together where they can be;
    reached : the devices that several nodes reach, if they are to be given away."""
    pods, own = snapshot.pods, OwnSpecs(snapshot.specs, snapshot.pods.spec, {})
    sharing = [at for at, spec in enumerate(own.specs) if any(claim.shared for claim in spec.claims)]
    together: list[_PodsTogether] = []
    if sharing:
        rows = np.flatnonzero(np.isin(pods.spec, sharing) & ~pods.is_terminal()).tolist()
        shared = _SharedClaims(snapshot, rows)
        sets = shared.pods_together() if is_together else []
        claims_of = {row: pod_set.claims for pod_set in sets for row in pod_set.rows}
        spec_by_row = {row: shared.own_spec(row, claims_of.get(row, {})) for row in rows}
        together = [of for of in sets if reached is None or not all(map(reached.counts, of.claims.values()))]
        for pod_set in together:
            spec_by_row |= _specs_together(spec_by_row, pod_set)
        own = own.changed(spec_by_row)
        # What pods that have ended asked for competes with nobody.
        ended = set(sharing) - set(own.spec[rows].tolist())
        specs = [spec._replace(claims=()) if at in ended else spec for at, spec in enumerate(own.specs)]
        own = own._replace(specs=tuple(specs))
    if reached is not None:
        own = own.changed(reached.planned_specs(own))
    spec_of = [[own.specs[at] for at in own.spec[pod_set.rows].tolist()] for pod_set in together]
    return own._replace(leader_of={spec: leader for leader, *others in spec_of for spec in others})


def _is_movable(snapshot: Snapshot) -> Bool:
    """Return which pods may get a node, or another one. bool[P]."""
    pods = snapshot.pods
    movable: Bool = ~pods.is_terminal() & (pods.deletion_s == 0)
    movable &= (pods.flags & (FLAG_DAEMON | FLAG_GATED | FLAG_MIRROR)) == 0
    return movable


def _in_order(snapshot: Snapshot, rows: Iterable[int]) -> list[int]:
    """Return pods in the order in which the scheduler looks at them."""
    pods, specs = snapshot.pods, snapshot.specs
    return sorted(rows, key=lambda row: (-specs[pods.spec[row]].priority, int(pods.created_s[row]), row))


class _PodsTogether(NamedTuple):
    """rows : of the pods, the first leads; claims : what they share, by "namespace/name", sorted."""

    rows: Sequence[int]
    claims: Mapping[str, PodClaim]


def _specs_together(specs: Mapping[int, PodRequirements], pod_set: _PodsTogether) -> dict[int, PodRequirements]:
    """Return the specs of pods that are planned together. specs : theirs, by row."""
    amounts: Counter[str] = Counter()
    extended: list[ExtendedDeviceRequest] = []
    own: list[PodClaim] = []
    out = {}
    for row in pod_set.rows:
        spec = specs[row]
        amounts.update(dict(spec.requests))
        extended += spec.extended_device_requests
        own += [claim for claim in spec.claims if claim.shared not in pod_set.claims and claim.nodes is None]
        marks = [claim._replace(together=FOLLOWS) for claim in spec.claims if claim.shared in pod_set.claims]
        with_devices = [claim for claim in spec.claims if claim.nodes is not None]
        out[row] = spec._replace(requests=(), claims=(*marks, *with_devices), extended_device_requests=())
    first = pod_set.rows[0]
    marks = [claim._replace(together=LEADS) for claim in pod_set.claims.values()]
    with_devices = [claim for claim in specs[first].claims if claim.nodes is not None]
    out[first] = specs[first]._replace(
        requests=tuple(sorted(amounts.items())),
        claims=(*marks, *own, *with_devices),
        extended_device_requests=tuple(extended),
    )
    return out


class _SharedClaims:
    """The claims that some pods share, which are given by their rows. Keys are "namespace/name"."""

    def __init__(self, snapshot: Snapshot, rows: Sequence[int]) -> None:
        self._snapshot, self._claims = snapshot, snapshot.devices.claims
        self._row = {"/".join(key): row for key, row in named_claims(snapshot.devices).items()}
        self._movable = _is_movable(snapshot)
        self._users: dict[str, dict[int, PodClaim]] = {}
        for row in rows:
            for claim in self._spec(row).claims:
                if claim.shared:
                    self._users.setdefault(self._key(row, claim), {}).setdefault(row, claim)

    def _wanted(self, key: str) -> PodClaim | None:
        """Return a claim if its users may get devices for it together, as it has none or they leave together."""
        claim, *others = self._users[key].values()
        node, *elsewhere = {*self._snapshot.pods.node[list(self._users[key])].tolist()}
        if not others or elsewhere or claim.problem:
            return None
        row = self._row.get(key, -1)
        if row < 0:
            return claim._replace(shared=key) if node == NO_NODE and claim.spec is not None else None
        flags, strings, claims = int(self._claims.flags[row]), self._snapshot.devices.strings, self._claims
        if flags & ALLOCATED:
            is_there = node >= 0 and strings[claims.node[row]] == self._snapshot.nodes.name[node]
            is_free = is_there and not self._has_other_consumers(key, row)
        else:
            is_free = node == NO_NODE
        if not is_free or flags & (BEING_DELETED | BINDING_FAILED):
            return None
        return claim._replace(shared=key, spec=self._spec_of(row))

    def pods_together(self) -> list[_PodsTogether]:
        """Return the pods that get devices together: they share claims, directly or through others."""
        wanted = {key: claim for key in sorted(self._users) if (claim := self._wanted(key))}
        first: dict[int, str] = {}
        links = [(key, first.setdefault(row, key)) for key in wanted for row in self._users[key]]
        pod_sets = [
            _PodsTogether(
                self._members(sorted({row for key in keys for row in self._users[key]})),
                {key: wanted[key] for key in keys},
            )
            for keys in linked_sets(wanted, links)
        ]
        return [pod_set for pod_set in pod_sets if pod_set.rows]

    def _members(self, rows: Sequence[int]) -> Sequence[int]:
        """Return those of pods that share claims which are planned together, the leader first, none if they cannot
        be. rows : all are on one node, or on none."""
        pods = self._snapshot.pods
        members = [row for row in rows if self._movable[row]]
        if len(members) < len(rows) and pods.node[rows[0]] != NO_NODE:
            return ()
        if (pods.flags[rows] & (FLAG_DAEMON | FLAG_MIRROR)).any():
            return ()
        specs = [self._spec(row) for row in members]
        alike = {
            (spec.priority, spec.scheduler_name, spec.scale_up_delay_s, spec.ignored_by_slack, spec.never_preempts)
            for spec in specs
        }
        if len(alike) != 1 or any(spec.pod_affinity for spec in specs):
            return ()
        return _in_order(self._snapshot, members)

    def own_spec(self, row: int, wanted: Mapping[str, PodClaim]) -> PodRequirements:
        """Return the spec of a pod with what its claims are for it. wanted : those that it gets with others."""
        claims = []
        for claim in self._spec(row).claims:
            key = self._key(row, claim)
            claims.append(wanted.get(key) or self._as_own(claim, key, row) if claim.shared else claim)
        return self._spec(row)._replace(claims=tuple(claims))

    def _as_own(self, claim: PodClaim, key: str, user: int) -> PodClaim:
        """Return a claim as that of its only user if it is so."""
        row, is_shared = self._row.get(key, -1), len(self._users[key]) > 1
        if row < 0:
            if claim.spec is None and not claim.problem:
                return claim._replace(problem=f"ResourceClaim {key} does not exist")
            return claim._replace(shared=key if is_shared or claim.spec is None else "")
        flags = int(self._claims.flags[row])
        if flags & BEING_DELETED:
            return claim._replace(problem=f"ResourceClaim {claim.shared} is being deleted")
        if flags & BINDING_FAILED:
            return claim._replace(problem=f"the devices of ResourceClaim {claim.shared} could not be bound")
        is_placed = self._snapshot.pods.node[user] >= 0
        if flags & ALLOCATED and (is_shared or not is_placed or self._has_other_consumers(key, row)):
            return claim._replace(shared="", spec=None, nodes=self._nodes(row))
        return claim._replace(shared=key) if is_shared else claim._replace(shared="", spec=self._spec_of(row))

    def _has_other_consumers(self, key: str, row: int) -> bool:
        """Return whether a claim is reserved for others than its users."""
        first, last = np.searchsorted(self._claims.consumer_claim, [row, row + 1]).tolist()
        name = self._snapshot.pods.name
        return not {self._claims.consumer.get(at) for at in range(first, last)} <= {*map(name.get, self._users[key])}

    def _nodes(self, row: int) -> tuple[NodeAffinityTerm, ...] | None:
        """Return which nodes reach the devices of a claim."""
        devices = self._snapshot.devices
        if name := devices.strings[self._claims.node[row]]:
            return (NodeAffinityTerm((), (LabelRequirement("metadata.name", LabelOperator.IN, (name,)),)),)
        selector = int(self._claims.selector[row])
        return devices.node_selectors[selector] if selector >= 0 else None

    def _spec_of(self, row: int) -> Hashable:
        claim_spec: Hashable = self._snapshot.devices.claim_specs[self._claims.spec[row]]
        return claim_spec

    def _spec(self, row: int) -> PodRequirements:
        spec: PodRequirements = self._snapshot.specs[self._snapshot.pods.spec[row]]
        return spec

    def _key(self, row: int, claim: PodClaim) -> str:
        return f"{self._snapshot.strings[self._snapshot.pods.namespace[row]]}/{claim.shared}"


class _ReachedGroup(NamedTuple):
    """Devices that may stand for each other."""

    devices: Mapping[NodeSelection, frozenset[DeviceId]]
    """By the nodes that reach them."""
    place: Sequence[NodeSelection | None]
    """The one of these that each node is in, by row."""


class ReachedDevices:
    """The devices of a cluster that several nodes reach: who keeps one, and who gets one of those that are left.

    A pod that holds some gives them up when it goes and finds as many again where the same pools are reached. Pods that
    wait get theirs, in their order, from the pools of which most is left, or where other claims of theirs have devices,
    and then may go wherever these are reached, new nodes included; for the others no device is left anywhere. So no
    device is counted twice, whatever nodes are chosen.

    Planned are requests of exact numbers without constraints for devices that are given away whole, if all that compete
    may get the same devices, only from pools with one node selection each, and no node reaches two of these selections.
    demand_of : reads a claim.
    """

    def __init__(self, sent: Snapshot, facts: DeviceFacts, demand_of: Callable[[DeviceClaim], ClaimDemand]) -> None:
        self._sent, self._facts, self._demand_of = sent, facts, demand_of
        filters: dict[int, list[DeviceFilter]] = {}
        for device_filter, number in facts.group_of.items():
            filters.setdefault(number, []).append(device_filter)
        groups = {number: self._group(of) for number, of in filters.items()}
        self._groups = {number: group for number, group in groups.items() if group is not None}
        self._left: Counter[tuple[int, NodeSelection]] = Counter()
        self._given: dict[str, tuple[PodClaim, ...]] = {}
        self.is_used = False
        """Some pods want such devices."""

    def _group(self, filters: Collection[DeviceFilter]) -> _ReachedGroup | None:
        """Return the devices of filters that compete, None if they cannot be planned here."""
        devices: dict[NodeSelection, set[DeviceId]] = {}
        pools, tables = self._facts.pools, set[DriverTable]()
        for id, place in pools.reached.items():
            if place is None:
                continue
            table, nodes = place
            tables.add(table)
            answers = {self._facts.eligible.of(device_filter, table) for device_filter in filters}
            if len(answers) > 1 or not all(answer.is_plain and not answer.problem for answer in answers):
                return None
            names, bits = pools.tables[table.table].names, next(iter(answers)).bits
            if bits:
                ids = [DeviceId(*id, name) for at, name in enumerate(names) if bits >> at & 1]
                devices.setdefault(nodes, set()).update(ids)
        others = {pool for layout in pools.layouts for pool in layout} | (pools.shared - tables)
        if not devices or any(self._facts.eligible.of(of, pool).bits for of in filters for pool in others):
            return None
        places: list[NodeSelection | None] = []
        for row in range(len(self._sent.nodes.name)):
            node = node_of(self._sent, row)
            labels = dict(node.labels)
            here = [nodes for nodes in devices if reaches(nodes, node, labels)]
            if len(here) > 1:
                return None
            places.append(here[0] if here else None)
        return _ReachedGroup({nodes: frozenset(of) for nodes, of in devices.items()}, places)

    def counts(self, claim: PodClaim) -> Counter[int]:
        """Return how many devices of each group a claim asks for, none if it cannot be planned here."""
        counts: Counter[int] = Counter()
        if isinstance(claim.spec, DeviceClaim) and not claim.problem and not claim.together:
            # Empty where a claim asks for more than a number.
            for device_filter, count in self._demand_of(claim.spec).counts:
                counts[self._facts.group_of.get(device_filter, -1)] += count
        return counts if counts.keys() <= self._groups.keys() else Counter()

    def planned_specs(self, own: OwnSpecs) -> dict[int, PodRequirements]:
        """Return what such claims are for pods, by row."""
        pods, groups = self._sent.pods, self._groups
        counts_of = [[self.counts(claim) for claim in spec.claims] for spec in own.specs] if groups else []
        wanted = [sum(counts, Counter[int]()) for counts in counts_of]
        here = np.isin(own.spec, [at for at, counts in enumerate(wanted) if counts]) & _is_movable(self._sent)
        placed, rows = Counter[tuple[int, NodeSelection | None]](), []
        for row in np.flatnonzero(here).tolist():
            counts, node = wanted[own.spec[row]], int(pods.node[row])
            places = {number: groups[number].place[node] if node >= 0 else None for number in counts}
            if node == NO_NODE or None not in places.values():
                rows.append(row)
                placed.update({(number, places[number]): count for number, count in counts.items()})
        # Devices in use are those of pods that have a place, or others.
        used = {result.device for _, result in allocated_devices(self._sent.devices) if not result.admin_access}
        for number, group in groups.items() if rows else ():
            for nodes, of in group.devices.items():
                self._left[number, nodes] = len(of) - max(len(of & used), placed[number, nodes])
        self.is_used = bool(rows)
        planned = {}
        for row in _in_order(self._sent, rows):
            at = own.spec[row]
            planned[row] = self._planned(own.specs[at], counts_of[at], int(pods.node[row]))
        return planned

    def _planned(self, spec: PodRequirements, counts_of: Sequence[Counter[int]], node: int) -> PodRequirements:
        """Return the spec of a pod; take what it gets from what is left. counts_of : its claims' in their order."""
        others = [claim for claim, counts in zip(spec.claims, counts_of, strict=True) if not counts]
        asking = [(claim, counts) for claim, counts in zip(spec.claims, counts_of, strict=True) if counts]
        served = [of_first for claim, _ in asking for of_first in self._given.get(claim.shared, ())]
        asking = [(claim, counts) for claim, counts in asking if claim.shared not in self._given]
        wanted = sum((counts for _, counts in asking), Counter[int]())
        # Devices beside those that a claim of the pod has already are of the same nodes.
        selectors = {claim.nodes for claim in (*others, *served) if claim.nodes is not None}
        places = {number: self._place(number, node, selectors) for number in wanted}
        if node == NO_NODE:
            if any(self._left[number, places[number]] < count for number, count in wanted.items()):
                return spec._replace(requests=tuple(sorted((*spec.requests, (NONE_LEFT, 1)))), claims=tuple(others))
            self._left.subtract({(number, places[number]): count for number, count in wanted.items()})
        for claim, counts in asking:
            nodes = sorted({places[number].selector for number in counts}, key=repr)
            of_claim = tuple([PodClaim(claim.name, "", None, "", selector) for selector in nodes])
            if claim.shared:
                self._given[claim.shared] = of_claim
            served += of_claim
        return spec._replace(claims=(*others, *served))

    def _place(self, number: int, node: int, selectors: Collection[tuple[NodeAffinityTerm, ...]]) -> NodeSelection:
        """Return where a pod gets devices of a group. node : the pod's; selectors : where other devices of it are."""
        group = self._groups[number]
        at = group.place[node] if node >= 0 else next((of for of in group.devices if of.selector in selectors), None)
        return at or max(group.devices, key=lambda nodes: (self._left[number, nodes], repr(nodes)))
