"""Devices that several nodes reach: who keeps one, and who gets one of those that are left.

Such devices are no amount of any node. A pod that holds some gives them up when it goes and finds as many again where
the same pools are reached, so all that it needs of a node is that. Pods that wait are served in the scheduler's order,
by priority, then age, from the pools of which most is left, and then may go wherever these are reached, new nodes
included; for the others no device is left anywhere. So no device is counted twice, whatever nodes are chosen. A claim
of several pods without devices takes some with the first of them; the others go wherever these are reached.

Planned are requests of exact numbers without constraints for devices that are given away whole, if all that compete
may get the same devices, only from pools with one node selection each, and no node reaches two of these selections.
O(claims of such pods + results).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import allocated_devices, node_of
from trimtab.planner.device_amounts.groups import EligibleByFilter
from trimtab.planner.device_amounts.node_pools import NodePools
from trimtab.planner.device_amounts.pod_claims import ClaimDemand, DeviceFilter
from trimtab.planner.device_amounts.shared_claims import OwnSpecs
from trimtab.planner.devices.model import DeviceClaim, DeviceId, NodeSelection
from trimtab.planner.devices.pools import reaches
from trimtab.planner.model.values import DEVICE_RESOURCE, PodClaim, PodRequirements
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_GATED, FLAG_MIRROR, NO_NODE, Snapshot

NONE_LEFT: Final = f"{DEVICE_RESOURCE}reached"
"""The resource that no node has, requested by pods for which no device is left."""
DemandOf = Callable[[DeviceClaim], ClaimDemand]


_Reached = Mapping[NodeSelection, frozenset[DeviceId]]
"""The devices of filters that compete, by the selection of their nodes."""


class ReachedDevices:
    """The devices of a cluster that several nodes reach. filters : by the number of their group."""

    def __init__(
        self, sent: Snapshot, pools: NodePools, eligible: EligibleByFilter, group_of: Mapping[DeviceFilter, int]
    ) -> None:
        self._sent, self._pools = sent, pools
        filters: dict[int, list[DeviceFilter]] = {}
        for device_filter, number in group_of.items():
            filters.setdefault(number, []).append(device_filter)
        self._group_of = group_of
        reached = {number: self._reached(of, eligible) for number, of in filters.items()} if pools.reached else {}
        self._groups = {number: devices for number, devices in reached.items() if devices is not None}
        self._given: dict[str, Mapping[int, NodeSelection]] = {}

    def unshared_claims(self, own: OwnSpecs, demand_of: DemandOf) -> frozenset[str]:
        """Return the claims of which the pods are planned together but need not be, as only such devices are eligible
        for all that these pods share. They are as "namespace/name"."""
        out = set[str]()
        for leader in set(own.leader_of.values()) if self._groups else ():
            shared = [claim for claim in leader.claims if claim.together]
            if all(self._counts(claim, demand_of) for claim in shared):
                out.update(claim.shared for claim in shared)
        return frozenset(out)

    def planned_specs(self, own: OwnSpecs, demand_of: DemandOf) -> OwnSpecs:
        """Return the specs with what such claims are for each pod. demand_of : reads a claim."""
        users = self._users(own, demand_of) if self._groups else {}
        if not users:
            return own
        free = {number: self._left(number, users) for number in self._groups}
        number: dict[PodRequirements, int] = {}
        column = own.spec.copy()
        created = self._sent.pods.created_s
        for row in sorted(users, key=lambda row: (-own.specs[own.spec[row]].priority, int(created[row]), row)):
            spec = self._planned(own.specs[own.spec[row]], row, users[row], free)
            column[row] = number.setdefault(spec, len(own.specs) + len(number))
        return own._replace(specs=(*own.specs, *number), spec=column)

    def _reached(self, filters: Sequence[DeviceFilter], eligible: EligibleByFilter) -> _Reached | None:
        """Return the devices of filters that compete, None if they cannot be planned here."""
        own = {pool for layout in self._pools.layouts for pool in layout}
        if any(eligible.of(device_filter, pool).bits for device_filter in filters for pool in own):
            return None
        devices: dict[NodeSelection, set[DeviceId]] = {}
        listed = set()
        for id, place in self._pools.reached.items():
            if place is None:
                continue
            table, nodes = place
            listed.add(table)
            answers = {eligible.of(device_filter, table) for device_filter in filters}
            if len(answers) > 1 or not all(answer.is_plain and not answer.problem for answer in answers):
                return None
            names, bits = self._pools.tables[table.table].names, next(iter(answers)).bits
            if bits:
                here = devices.setdefault(nodes, set())
                here.update(DeviceId(*id, name) for at, name in enumerate(names) if bits >> at & 1)
        unknown = self._pools.shared - listed
        if not devices or any(eligible.of(device_filter, pool).bits for device_filter in filters for pool in unknown):
            return None
        if any(len(list(self._reaching(node, devices))) > 1 for node in range(len(self._sent.nodes.name))):
            return None
        return {nodes: frozenset(of) for nodes, of in devices.items()}

    def _reaching(self, node: int, selections: Iterable[NodeSelection]) -> Iterator[NodeSelection]:
        """Yield the selections of a node."""
        device_node = node_of(self._sent, node)
        labels = dict(device_node.labels)
        yield from (nodes for nodes in selections if reaches(nodes, device_node, labels))

    def _left(self, number: int, users: Mapping[int, Mapping[str, Counter[int]]]) -> Counter[NodeSelection]:
        """Return how many devices of a group are left, by the selection of their nodes: neither in use nor asked for by
        a pod that has a place."""
        used = {result.device for _, result in allocated_devices(self._sent.devices) if not result.admin_access}
        placed: Counter[NodeSelection] = Counter()
        for row, counts_of in users.items():
            for nodes in self._at(number, int(self._sent.pods.node[row])):
                placed[nodes] += sum(counts[number] for counts in counts_of.values())
        # Devices in use are those of pods that have a place, or others.
        devices = self._groups[number]
        return Counter({nodes: len(of) - max(len(of & used), placed[nodes]) for nodes, of in devices.items()})

    def _users(self, own: OwnSpecs, demand_of: DemandOf) -> dict[int, dict[str, Counter[int]]]:
        """Return by pod how many devices of each group its claims ask for, by their names. Left out are pods that
        cannot be planned."""
        pods, users = self._sent.pods, dict[int, dict[str, Counter[int]]]()
        of_spec = {at: self._asked(spec, demand_of) for at, spec in enumerate(own.specs) if spec.claims}
        asking = [at for at, counts_of in of_spec.items() if counts_of]
        here = np.isin(own.spec, asking) & ~pods.is_terminal() & (pods.deletion_s == 0)
        here &= (pods.flags & (FLAG_DAEMON | FLAG_GATED | FLAG_MIRROR)) == 0
        for row in np.flatnonzero(here).tolist():
            counts_of, node = of_spec[own.spec[row]], int(pods.node[row])
            if node == NO_NODE or all(self._at(number, node) for of in counts_of.values() for number in of):
                users[row] = counts_of
        return users

    def _at(self, number: int, node: int) -> list[NodeSelection]:
        """Return the selection of a group's pools that a node reaches."""
        return list(self._reaching(node, self._groups[number])) if node >= 0 else []

    def _asked(self, spec: PodRequirements, demand_of: DemandOf) -> dict[str, Counter[int]]:
        of_claim = {claim.name: self._counts(claim, demand_of) for claim in spec.claims if not claim.together}
        return {name: counts for name, counts in of_claim.items() if counts}

    def _counts(self, claim: PodClaim, demand_of: DemandOf) -> Counter[int]:
        """Return how many devices of each group a claim asks for, none if it cannot be planned here."""
        demand = demand_of(claim.spec) if isinstance(claim.spec, DeviceClaim) else None
        counts: Counter[int] = Counter()
        if demand is not None and demand.is_counting and not claim.problem:
            for device_filter, count in demand.counts:
                counts[self._group_of.get(device_filter, -1)] += count
        return counts if all(number in self._groups for number in counts) else Counter()

    def _planned(
        self,
        spec: PodRequirements,
        row: int,
        counts_of: Mapping[str, Counter[int]],
        free: Mapping[int, Counter[NodeSelection]],
    ) -> PodRequirements:
        """Return the spec of a pod; take what it gets from what is left."""
        node, wanted = int(self._sent.pods.node[row]), Counter[int]()
        shared = {claim.name: claim.shared for claim in spec.claims}
        nodes_of_claim = {name: self._given[shared[name]] for name in counts_of if shared[name] in self._given}
        for name, counts in counts_of.items():
            wanted.update({} if name in nodes_of_claim else counts)
        # Devices beside those that a claim of the pod has already are of the same nodes.
        nodes_of = {number: nodes for places in nodes_of_claim.values() for number, nodes in places.items()}
        if node != NO_NODE:
            places = {number: self._at(number, node)[0] for number in wanted}
        else:
            places = {
                number: nodes_of.get(number)
                or max(free[number], key=lambda selection: (free[number][selection], repr(selection)))
                for number in wanted
            }
            if any(free[number][places[number]] < count for number, count in wanted.items()):
                others = tuple([claim for claim in spec.claims if claim.name not in counts_of])
                return spec._replace(requests=tuple(sorted((*spec.requests, (NONE_LEFT, 1)))), claims=others)
            for number, count in wanted.items():
                free[number][places[number]] -= count
        claims = [claim for claim in spec.claims if claim.name not in counts_of]
        for name, counts in counts_of.items():
            of = nodes_of_claim.get(name) or {number: places[number] for number in counts}
            if shared[name]:
                self._given[shared[name]] = of
            selectors = {nodes.selector for nodes in of.values()}
            claims += [PodClaim(name, "", None, "", selection) for selection in sorted(selectors, key=repr)]
        return spec._replace(claims=tuple(claims))
