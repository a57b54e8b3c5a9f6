"""The cheapest pools for a cluster's pods, from plans of the decision SCALE_UP over an empty cluster.

Decides between plans: first fewer pods without a place, then the lower price, then fewer nodes. With at most K pools,
all choices of K pools are planned if there are few, else pools are given up one by one, then exchanged, as long as that
is cheaper. A pool below its least number of nodes is filled up or given up, whichever is cheaper. Units: prices per
hour.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.planners import PlannerAccess
from trimtab.clients.cli.rightsize.empty_cluster import EmptyCluster
from trimtab.clients.cli.rightsize.few_pods import Bin, least_bins
from trimtab.clients.cli.rightsize.headroom import Headroom
from trimtab.clients.cli.rightsize.machines import POOL_LABEL, MachineChoice
from trimtab.clients.cli.sentences import SKIPPED_SENTENCES
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.quantities import counted_amounts
from trimtab.common.objects.dominated_groups import leave_out_dominated
from trimtab.places import new_nodes, shortfalls
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

MOST_NODES: Final = 5000
"""Most nodes of one group."""
MOST_GROUPS: Final = 1200
FEW_PODS: Final = 1000
"""Up to so many pods, every attempt of the planner is made."""
MOST_PLANS: Final = 60
LOWEST_PRIORITY: Final = -(2**31)
MOST_REPAIRS: Final = 5
SMALLEST_SAVING: Final = 1e-9


class SizingLimits(NamedTuple):
    """What the options say of pools. max_pools, max_nodes : 0 = any number; both limits on nodes are of one pool."""

    headroom: Headroom = Headroom()
    max_pools: int = 0
    min_nodes: int = 0
    max_nodes: int = 0


class SizedGroup(NamedTuple):
    """Nodes of one machine. pods : "namespace/name" of those on each new node; more : nodes beside them that hold none,
    for the least number of nodes.
    """

    machine: MachineChoice
    pods: Sequence[Sequence[str]]
    more: int = 0

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self.pods) + self.more

    @property
    def price(self) -> float:
        """The price of all nodes."""
        return self.node_count * self.machine.price


class Sizing(NamedTuple):
    """Pools that hold the pods. unplaced : pods without a place, and why; is_verified : whether the pods found their
    places again when the written groups were planned.
    """

    groups: Sequence[SizedGroup]
    unplaced: Mapping[str, str]
    is_verified: bool = False

    @property
    def price(self) -> float:
        """The price of all nodes."""
        return sum(group.price for group in self.groups)

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return sum(group.node_count for group in self.groups)

    @property
    def pools(self) -> list[str]:
        """The pools, sorted."""
        return sorted({group.machine.pool for group in self.groups})

    @property
    def rank(self) -> tuple[int, float, int, list[str]]:
        """Less is better."""
        return len(self.unplaced), round(self.price, 9), self.node_count, self.pools


class Sizer:
    """Makes sizings of one cluster with one list of machines."""

    def __init__(
        self,
        planner: PlannerAccess,
        empty: EmptyCluster,
        machines: Sequence[MachineChoice],
        limits: SizingLimits,
        now: Timestamp,
    ) -> None:
        self._planner, self._empty, self._limits, self._now = planner, empty, limits, now
        self._machines = {machine.group: machine for machine in machines}
        self._pools = sorted({machine.pool for machine in machines})
        groups = [one.node_group(MOST_NODES, limits.headroom.left(one.offer.allocatable)) for one in machines]
        self._whole = empty.with_groups(groups)
        self._request = _request(empty, limits, self._pools, now)
        if not limits.max_pools or len(self._whole.node_groups) > MOST_GROUPS:
            leave_out_dominated(self._whole, self._request.settings)
        self._tried: dict[frozenset[str], Sizing] = {}

    def best(self) -> Sizing:
        """Return the best sizing within the limits."""
        found = self._planned(frozenset(self._pools))
        most = self._limits.max_pools
        if most and len(found.pools) > most:
            found = self._fewer_pools(found, most)
        if self._limits.min_nodes:
            found = self._filled(found)
        if self._limits == SizingLimits(self._limits.headroom):
            found = self._exact(found)
        return self._verified(found)

    def _planned(self, pools: frozenset[str]) -> Sizing:
        """Return the sizing with some pools."""
        known = self._tried.get(pools)
        if known is None:
            snapshot = pb.ClusterSnapshot()
            snapshot.CopyFrom(self._whole)
            del snapshot.node_groups[:]
            snapshot.node_groups.extend(
                group for group in self._whole.node_groups if self._machines[group.id].pool in pools
            )
            known = self._tried[pools] = self._read(self._planner.plan(snapshot, self._request).scale_up)
        return known

    def _read(self, answer: plan_pb2.ScaleUpDecision) -> Sizing:
        unplaced = {pod: _reason(one) for pod, one in shortfalls(answer).items()}
        unplaced |= {one.pod: SKIPPED_SENTENCES.get(one.reason, "it is left out") for one in answer.skipped}
        nodes = new_nodes(answer)
        groups = [
            SizedGroup(self._machines[split.node_group], [tuple(pods) for pods in nodes[split.node_group]])
            for split in answer.splits
        ]
        return Sizing(groups, {pod: why for pod, why in unplaced.items() if pod in self._empty.pods})

    def _exact(self, found: Sizing) -> Sizing:
        """Return the cheapest sizing of a few pods by their requests alone, if a plan confirms it and it is cheaper."""
        requests = [self._empty.requests[pod] for pod in sorted(self._empty.pods - found.unplaced.keys())]
        amounts = {name: self._limits.headroom.left(one.offer.allocatable) for name, one in self._machines.items()}
        bins = [
            Bin(name, self._machines[name].price, counted_amounts(of_machine)) for name, of_machine in amounts.items()
        ]
        sizes = least_bins(bins, requests) or {}
        price = sum(self._machines[name].price * size for name, size in sizes.items())
        if not sizes or price >= found.price - SMALLEST_SAVING:
            return found
        groups = [self._machines[name].node_group(size, amounts[name]) for name, size in sizes.items()]
        exact = self._read(self._planner.plan(self._empty.with_groups(groups), self._request).scale_up)
        return min(found, exact, key=_rank)

    def _fewer_pools(self, found: Sizing, most: int) -> Sizing:
        """Return the best sizing with at most `most` pools that was found."""
        if comb(len(self._pools), min(most, len(self._pools))) <= MOST_PLANS:
            return min((self._planned(frozenset(one)) for one in combinations(self._pools, most)), key=_rank)
        chosen = frozenset(found.pools)
        while len(chosen) > most:
            prices = {pool: _price_of(found, pool) for pool in chosen}
            going = sorted(chosen, key=lambda pool: (prices[pool], pool))[:MOST_REPAIRS]
            found = min((self._planned(chosen - {pool}) for pool in going), key=_rank)
            tried = [chosen - {pool} for pool in going]
            chosen = next(one for one in tried if self._tried[one] is found)
        return self._exchanged(found, chosen)

    def _exchanged(self, found: Sizing, chosen: frozenset[str]) -> Sizing:
        """Return the best sizing after exchanges of one pool for another."""
        improved = True
        while improved and len(self._tried) < MOST_PLANS:
            improved = False
            for pool, other in ((a, b) for a in sorted(chosen) for b in self._promising(chosen)):
                if len(self._tried) >= MOST_PLANS:
                    break
                tried = self._planned(chosen - {pool} | {other})
                if tried.rank < found.rank:
                    found, chosen, improved = tried, chosen - {pool} | {other}, True
                    break
        return found

    def _promising(self, chosen: Collection[str]) -> list[str]:
        """Return other pools, the cheapest for what the pods together request first."""
        total = self._empty.total(self._empty.pods)
        return sorted(
            (pool for pool in self._pools if pool not in chosen),
            key=lambda pool: (min(_price_for(one, total) for one in self._machines.values() if one.pool == pool), pool),
        )

    def _filled(self, found: Sizing) -> Sizing:
        """Return a sizing in which each pool has the least number of nodes."""
        least, pools = self._limits.min_nodes, frozenset(self._pools)
        while any(_count_of(found, pool) < least for pool in found.pools) and len(self._tried) < MOST_PLANS:
            options = [pools - {pool} for pool in found.pools if len(pools) > 1]
            best = min(options, key=lambda one: _raised(self._planned(one), least).rank, default=pools)
            if _raised(self._planned(best), least).rank >= _raised(found, least).rank:
                break
            found, pools = self._planned(best), best
        return _raised(found, least)

    def _verified(self, found: Sizing) -> Sizing:
        """Plan the pods onto the written groups. If some find no place there, add nodes of the groups where they do."""
        for _ in range(MOST_REPAIRS):
            sizes = {group.machine.group: group.node_count for group in found.groups}
            again = self._onto(sizes)
            lost = again.unplaced.keys() - found.unplaced.keys()
            if not lost:
                return found._replace(is_verified=True)
            more = self._onto({name: size + len(lost) for name, size in sizes.items()})
            if more.unplaced.keys() - found.unplaced.keys():
                break
            larger = {group.machine.group: group for group in more.groups}
            found = found._replace(
                groups=[
                    larger[name] if name in larger and larger[name].node_count > group.node_count else group
                    for group in found.groups
                    for name in (group.machine.group,)
                ]
            )
        return found

    def _onto(self, sizes: Mapping[str, int]) -> Sizing:
        """Return the sizing with at most so many nodes of each group, as the written objects have them."""
        groups: list[NodeGroup] = [self._machines[name].node_group(size) for name, size in sizes.items()]
        request = plan_pb2.PlanRequest()
        request.CopyFrom(self._request)
        request.settings.planner.ClearField("limits")
        return self._read(self._planner.plan(self._empty.with_groups(groups), request).scale_up)


def _request(empty: EmptyCluster, limits: SizingLimits, pools: Iterable[str], now: Timestamp) -> plan_pb2.PlanRequest:
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP], now=now)
    settings = request.settings
    settings.scale_up.expanders.append(plan_pb2.Expander.CHEAPEST_PLAN)
    settings.scale_up.max_new_nodes = MOST_NODES
    names = {empty.snapshot.strings[spec.scheduler_name] for spec in empty.snapshot.pod_specs if spec.scheduler_name}
    settings.scale_up.scheduler_names.extend(sorted(names - {"", "default-scheduler"}))
    settings.planner.expendable_pods_priority_cutoff = LOWEST_PRIORITY
    effort = plan_pb2.SearchEffort.BEST if len(empty.pods) <= FEW_PODS else plan_pb2.SearchEffort.USUAL
    settings.search_effort = effort
    for pool in pools if limits.max_nodes else ():
        limit = settings.planner.limits.add(resource="nodes", maximum=limits.max_nodes)
        limit.nodes.match_labels[POOL_LABEL] = pool
    return request


def _raised(found: Sizing, least: int) -> Sizing:
    """Return a sizing in which each pool has at least so many nodes: more of its first group."""
    groups: list[SizedGroup] = []
    seen: set[str] = set()
    for group in found.groups:
        missing = least - _count_of(found, group.machine.pool) if group.machine.pool not in seen else 0
        seen.add(group.machine.pool)
        groups.append(group._replace(more=group.more + max(missing, 0)))
    return found._replace(groups=groups)


def _reason(one: plan_pb2.Shortfall) -> str:
    return one.detail or "no machine of the list takes it"


def _rank(one: Sizing) -> tuple[int, float, int, list[str]]:
    return one.rank


def _price_of(found: Sizing, pool: str) -> float:
    return sum(group.price for group in found.groups if group.machine.pool == pool)


def _count_of(found: Sizing, pool: str) -> int:
    return sum(group.node_count for group in found.groups if group.machine.pool == pool)


def _price_for(machine: MachineChoice, total: Mapping[str, int]) -> float:
    """Return what a machine costs for what pods request, if it were divisible."""
    shares = [amount / machine.amount(name) for name, amount in total.items() if amount and machine.amount(name)]
    return machine.price * max(shares, default=0.0)
