"""The cheapest pools for a cluster's pods, from plans of the decision SCALE_UP over an empty cluster.

Decides between plans: first fewer pods without a place, then the lower price, then fewer nodes. With at most K pools,
all choices of K pools are planned if there are few, else pools are given up one by one, then exchanged, as long as that
is cheaper. A pool below its least number of nodes is filled up or given up, whichever is cheaper. Units: prices per
hour.

A few pods are packed exactly, by their requests alone, by dynamic programming over sets of pods, O(3^pods): a candidate
that a plan has to confirm, as it knows nothing of affinity, spread, DaemonSets or labels.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.rightsize.empty_cluster import EmptyCluster
from trimtab.clients.cli.rightsize.machines import POOL_LABEL, MachineChoice
from trimtab.clients.cli.sentences import SKIPPED_SENTENCES
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.kubernetes.kinds.metadata import Quantities
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.quantities import NANO, counted_amounts, quantity
from trimtab.common.objects.dominated_groups import leave_out_dominated
from trimtab.places import new_nodes, shortfalls
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

_BOTH: Final = ("cpu", "memory")
_WRITE: Final = "write 10%, or cpu=10%,memory=2Gi"


class Headroom(NamedTuple):
    """shares : by resource, 0 to below 1; amounts : by resource, in nano-units."""

    shares: Mapping[str, float] = MappingProxyType({})
    amounts: Mapping[str, int] = MappingProxyType({})

    def left(self, allocatable: Quantities) -> Quantities:
        """Return what a node offers to pods without the room that stays free."""
        found = dict(allocatable)
        for resource in allocatable.keys() & (self.shares.keys() | self.amounts.keys()):
            nano = quantity(allocatable[resource])
            free = nano * self.shares.get(resource, 0.0) + self.amounts.get(resource, 0)
            found[resource] = f"{max(nano - round(free), 0) * 1000 // NANO}m"
        return found

    def __str__(self) -> str:
        """Return it in words, "" if nothing stays free."""
        parts = [f"{share:.0%} of {resource}" for resource, share in self.shares.items()]
        parts += [f"{amount / NANO:g} of {resource}" for resource, amount in self.amounts.items()]
        return " and ".join(parts)


def read_headroom(text: str | None) -> Headroom:
    """Read `--headroom`. Errors: UsageError."""
    shares: dict[str, float] = {}
    amounts: dict[str, int] = {}
    for part in (text or "").split(",") if text else ():
        resource, equals, value = (one.strip() for one in part.partition("="))
        if not equals:
            resource, value = "", resource
        if equals and not resource:
            raise UsageError(f"--headroom {text}: {part.strip()!r} names no resource; {_WRITE}")
        if value.endswith("%"):
            share = _share(text, value)
            shares.update(dict.fromkeys([resource] if resource else _BOTH, share))
        elif not resource:
            raise UsageError(f"--headroom {text}: {value!r} is no share; {_WRITE}")
        else:
            amounts[resource] = _amount(text, value)
    return Headroom(shares, amounts)


def _share(text: str | None, value: str) -> float:
    try:
        share = float(value.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise UsageError(f"--headroom {text}: {value!r} is not a share from 0% to below 100%; {_WRITE}")
    return share


def _amount(text: str | None, value: str) -> int:
    try:
        nano = quantity(value)
    except FieldError as error:
        raise UsageError(f"--headroom {text}: {error.problem}; {_WRITE}") from None
    if nano < 0:
        raise UsageError(f"--headroom {text}: {value} is negative; {_WRITE}")
    return nano


MOST_PODS: Final = 12
MOST_MACHINES: Final = 64


class Bin(NamedTuple):
    """A machine that may be opened any number of times. amounts : what it offers, by resource."""

    name: str
    price: float
    amounts: Mapping[str, int]


def least_bins(bins: Sequence[Bin], requests: Sequence[Mapping[str, int]]) -> dict[str, int] | None:
    """Return how many of each bin hold all requests for the least price; None if there are too many pods or bins, or
    some pod fits none. Among equal ones the first bin by price, then name.
    """
    if not requests or len(requests) > MOST_PODS or len(bins) > MOST_MACHINES:
        return None
    cheapest = _cheapest_bins(sorted(bins, key=lambda one: (one.price, one.name)), requests)
    best: list[float] = [0.0]
    chosen: list[int] = [0]
    for pods in range(1, 1 << len(requests)):
        first = pods & -pods
        others = part = pods ^ first
        price, node = float("inf"), 0
        while True:
            bin_of = cheapest[part | first]
            if bin_of is not None and bin_of.price + best[others ^ part] < price:
                price, node = bin_of.price + best[others ^ part], part | first
            if not part:
                break
            part = (part - 1) & others
        best.append(price)
        chosen.append(node)
    if best[-1] == float("inf"):
        return None
    found: Counter[str] = Counter()
    left = (1 << len(requests)) - 1
    while left:
        bin_of = cheapest[chosen[left]]
        assert bin_of is not None  # its price is finite
        found[bin_of.name] += 1
        left ^= chosen[left]
    return dict(found)


def _cheapest_bins(bins: Sequence[Bin], requests: Sequence[Mapping[str, int]]) -> list[Bin | None]:
    """Return the first bin that holds each set of pods, by the bits of the set; None = none does."""
    resources = sorted({name for request in requests for name, amount in request.items() if amount})
    totals = [dict.fromkeys(resources, 0)]
    for row, request in enumerate(requests):
        totals += [{name: before[name] + request.get(name, 0) for name in resources} for before in totals[: 1 << row]]
    found: list[Bin | None] = []
    for pods, total in enumerate(totals):
        count = pods.bit_count()
        found.append(
            next(
                (
                    one
                    for one in bins
                    if count <= one.amounts.get("pods", 0)
                    and all(amount <= one.amounts.get(name, 0) for name, amount in total.items())
                ),
                None,
            )
        )
    return found


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
        planner: PlannerClient,
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

    def _exact(self, sizing: Sizing) -> Sizing:
        """Return the cheapest sizing of a few pods by their requests alone, if a plan confirms it and it is cheaper."""
        requests = [self._empty.requests[pod] for pod in sorted(self._empty.pods - sizing.unplaced.keys())]
        amounts = {name: self._limits.headroom.left(one.offer.allocatable) for name, one in self._machines.items()}
        bins = [
            Bin(name, self._machines[name].price, counted_amounts(of_machine)) for name, of_machine in amounts.items()
        ]
        sizes = least_bins(bins, requests) or {}
        price = sum(self._machines[name].price * size for name, size in sizes.items())
        if not sizes or price >= sizing.price - SMALLEST_SAVING:
            return sizing
        groups = [self._machines[name].node_group(size, amounts[name]) for name, size in sizes.items()]
        exact = self._read(self._planner.plan(self._empty.with_groups(groups), self._request).scale_up)
        return min(sizing, exact, key=_rank)

    def _fewer_pools(self, sizing: Sizing, most: int) -> Sizing:
        """Return the best sizing with at most `most` pools that was found."""
        if comb(len(self._pools), min(most, len(self._pools))) <= MOST_PLANS:
            return min((self._planned(frozenset(one)) for one in combinations(self._pools, most)), key=_rank)
        chosen = frozenset(sizing.pools)
        while len(chosen) > most:
            prices = {pool: _price_of(sizing, pool) for pool in chosen}
            going = sorted(chosen, key=lambda pool: (prices[pool], pool))[:MOST_REPAIRS]
            sizing = min((self._planned(chosen - {pool}) for pool in going), key=_rank)
            tried = [chosen - {pool} for pool in going]
            chosen = next(one for one in tried if self._tried[one] is sizing)
        return self._exchanged(sizing, chosen)

    def _exchanged(self, sizing: Sizing, chosen: frozenset[str]) -> Sizing:
        """Return the best sizing after exchanges of one pool for another."""
        improved = True
        while improved and len(self._tried) < MOST_PLANS:
            improved = False
            for pool, other in ((a, b) for a in sorted(chosen) for b in self._promising(chosen)):
                if len(self._tried) >= MOST_PLANS:
                    break
                tried = self._planned(chosen - {pool} | {other})
                if tried.rank < sizing.rank:
                    sizing, chosen, improved = tried, chosen - {pool} | {other}, True
                    break
        return sizing

    def _promising(self, chosen: Collection[str]) -> list[str]:
        """Return other pools, the cheapest for what the pods together request first."""
        total = self._empty.total(self._empty.pods)
        return sorted(
            (pool for pool in self._pools if pool not in chosen),
            key=lambda pool: (min(_price_for(one, total) for one in self._machines.values() if one.pool == pool), pool),
        )

    def _filled(self, sizing: Sizing) -> Sizing:
        """Return a sizing in which each pool has the least number of nodes."""
        least, pools = self._limits.min_nodes, frozenset(self._pools)
        while any(_count_of(sizing, pool) < least for pool in sizing.pools) and len(self._tried) < MOST_PLANS:
            options = [pools - {pool} for pool in sizing.pools if len(pools) > 1]
            best = min(options, key=lambda option: _raised(self._planned(option), least).rank, default=pools)
            if _raised(self._planned(best), least).rank >= _raised(sizing, least).rank:
                break
            sizing, pools = self._planned(best), best
        return _raised(sizing, least)

    def _verified(self, sizing: Sizing) -> Sizing:
        """Plan the pods onto the written groups. If some find no place there, add nodes of the groups where they do."""
        for _ in range(MOST_REPAIRS):
            sizes = {group.machine.group: group.node_count for group in sizing.groups}
            again = self._onto(sizes)
            lost = again.unplaced.keys() - sizing.unplaced.keys()
            if not lost:
                return sizing._replace(is_verified=True)
            more = self._onto({name: size + len(lost) for name, size in sizes.items()})
            if more.unplaced.keys() - sizing.unplaced.keys():
                break
            larger = {group.machine.group: group for group in more.groups}
            sizing = sizing._replace(
                groups=[
                    larger[name] if name in larger and larger[name].node_count > group.node_count else group
                    for group in sizing.groups
                    for name in (group.machine.group,)
                ]
            )
        return sizing

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


def _raised(sizing: Sizing, least: int) -> Sizing:
    """Return a sizing in which each pool has at least so many nodes: more of its first group."""
    groups: list[SizedGroup] = []
    seen: set[str] = set()
    for group in sizing.groups:
        missing = least - _count_of(sizing, group.machine.pool) if group.machine.pool not in seen else 0
        seen.add(group.machine.pool)
        groups.append(group._replace(more=group.more + max(missing, 0)))
    return sizing._replace(groups=groups)


def _reason(shortfall: plan_pb2.Shortfall) -> str:
    return shortfall.detail or "no machine of the list takes it"


def _rank(sizing: Sizing) -> tuple[int, float, int, list[str]]:
    return sizing.rank


def _price_of(sizing: Sizing, pool: str) -> float:
    return sum(group.price for group in sizing.groups if group.machine.pool == pool)


def _count_of(sizing: Sizing, pool: str) -> int:
    return sum(group.node_count for group in sizing.groups if group.machine.pool == pool)


def _price_for(machine: MachineChoice, total: Mapping[str, int]) -> float:
    """Return what a machine costs for what pods request, if it were divisible."""
    shares = [amount / machine.amount(name) for name, amount in total.items() if amount and machine.amount(name)]
    return machine.price * max(shares, default=0.0)
