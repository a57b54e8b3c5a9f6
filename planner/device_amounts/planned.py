"""The snapshot with which decisions are made: devices that can be counted have become resources.

Each ask for countable devices is a resource: nodes offer as many as are eligible, less those that claims other than the
placed pods' have, and pods request what their claims count. So whatever is decided with amounts is decided with devices
too: where pods fit, how many nodes they need, the cheapest ones, what limits allow. Each class is a resource as well,
which limits may name. Pods with claims that cannot be counted are not placed. A node whose drivers have not published
what they publish elsewhere in its group is not ready.

Nothing else of a snapshot changes, and nothing at all if it has no devices. Cost: O(nodes) with some microseconds each
if slices have changed, else columns of claims and pods; see `PlannedSnapshot`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.planner.device_amounts.asks import Ask, CountedClaims
from trimtab.planner.device_amounts.bundles import (
    Bundle,
    BundleCounter,
    BundleUsers,
    NodeOfKind,
    bundle_resource,
    takes_nothing,
    used_on,
)
from trimtab.planner.device_amounts.cluster_devices import (
    classes_of,
    extended_resources,
    features_of,
    node_of,
    slices_of,
    template_slices,
)
from trimtab.planner.device_amounts.columns import Column, DeviceTotals, columns_of, used_devices
from trimtab.planner.device_amounts.competing_claims import ClaimUse, CompetingClaims, competitions
from trimtab.planner.device_amounts.groups import EligibleByAsk, ask_groups
from trimtab.planner.device_amounts.layouts import Competition, KnownLayouts
from trimtab.planner.device_amounts.node_pools import NodePoolReader, NodePools, pool_indexes
from trimtab.planner.device_amounts.published import PublishedDevices, add_plugins, published_devices, with_columns
from trimtab.planner.device_amounts.reached_devices import NONE_LEFT, ReachedDevices
from trimtab.planner.device_amounts.shared_claims import OwnSpecs, with_own_claims
from trimtab.planner.device_amounts.specs_in_rows import SPECS_OF, distinct_specs, has_claims, mapped, other_specs
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import DeviceClaim, DeviceClass, DeviceFeatures, DeviceNode, PoolId
from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.model.values import FOLLOWS, LEADS, PodClaim, PodRequirements
from trimtab.planner.snapshot.columns import Bool, DeviceColumns, Int32, Int64, Snapshot
from trimtab.planner.snapshot.devices import NO_DEVICES
from trimtab.planner.snapshot.dictionaries import FIRST_RESOURCES
from trimtab.planner.snapshot.sharing import share

NOT_COUNTED: Final = "resourceClaims"
"""In `PodRequirements.unsupported`: claims that only the allocator decides."""


@dataclass(frozen=True)
class PlannedDevices:
    """The snapshot with which decisions are made. sent : the one that was sent; resources : names of those that stand
    for devices, sorted; facts : what slices and asks say, for the next one; has_pods_together : some pods are planned
    together, as no pod is for itself."""

    snapshot: Snapshot
    sent: Snapshot
    resources: tuple[str, ...] = ()
    facts: "_Facts | None" = None
    has_pods_together: bool = False


class _FactInputs(NamedTuple):
    """All that `_Facts` depend on. parts : fields of the snapshot, compared by identity; idle : of the asks, those that
    only claims for administration name."""

    parts: tuple[Any, ...]
    asks: tuple[Ask, ...]
    idle: frozenset[Ask]


@dataclass(frozen=True)
class _Facts:
    """pools : of nodes; declared : of the new nodes of node groups that declare them; columns : of resources;
    group_of : number of the group of each ask; requested : the columns of each ask that can be counted; problem_of :
    why none can be allocated, by ask; totals : devices of nodes; devices, classes, features : of the allocator,
    without claims; declared_kinds : a new node of each profile that a node group declares; bundles : counts of these;
    layouts : what is known of each competition.
    """

    inputs: _FactInputs
    pools: NodePools
    declared: Mapping[str, int]
    columns: tuple[Column, ...]
    group_of: Mapping[Ask, int]
    requested: Mapping[Ask, tuple[str, ...]]
    problem_of: Mapping[Ask, str]
    totals: DeviceTotals
    eligible: EligibleByAsk
    devices: DeviceColumns
    classes: Mapping[str, DeviceClass]
    features: DeviceFeatures
    declared_kinds: Mapping[int, NodeOfKind]
    bundles: BundleCounter
    layouts: dict[Competition, KnownLayouts]

    @cached_property
    def allocator(self) -> DeviceAllocator:
        """The allocator, which only bundles need."""
        return DeviceAllocator(slices_of(self.devices), self.classes.values(), self.features)

    @cached_property
    def indexes(self) -> Mapping[int, Mapping[PoolId, int]]:
        """The index of each pool in the profile of its node, by node."""
        return pool_indexes(self.pools)

    def is_of(self, inputs: _FactInputs) -> bool:
        """Return whether these are the facts of some inputs."""
        same = all(one is other for one, other in zip(self.inputs.parts, inputs.parts, strict=True))
        return same and self.inputs[1:] == inputs[1:]


def planned_snapshot(
    sent: Snapshot, before: PlannedDevices | None = None, *, is_together: bool = True
) -> PlannedDevices:
    """Return the snapshot with which decisions are made. before : that of an earlier snapshot, of which what has not
    changed is taken over; is_together : pods are planned together, those that share a claim without devices and those
    that want devices which several nodes reach, otherwise such pods are not placed."""
    if sent.devices.is_empty and not any(spec.claims for spec in (*sent.specs, *other_specs(sent))):
        return PlannedDevices(sent, sent)
    own = with_own_claims(sent, is_together=is_together)
    return _Planner(sent, before, own, is_together=is_together).planned()


@dataclass(frozen=True, eq=False)
class _Wanted:
    """What pods want of devices. asks : all that they name; counts : devices by ask, None = they want more than a
    number; bundle : their claims as one, () = they are not all their own."""

    asks: tuple[Ask, ...]
    counts: Mapping[Ask, int] | None
    bundle: Bundle


class _Planner:
    """Derives one snapshot."""

    def __init__(self, sent: Snapshot, before: PlannedDevices | None, own: OwnSpecs, *, is_together: bool) -> None:
        self._sent, self._before, self._own, self._is_together = sent, before, own, is_together
        self._devices = sent.devices
        self._features = features_of(self._devices)
        self._classes = classes_of(self._devices)
        self._claims = CountedClaims(self._classes, self._features)
        self._specs: dict[PodRequirements, PodRequirements] = {}
        self._wanted: dict[tuple[int, int], tuple[PodRequirements, _Wanted]] = {}
        self._extended = extended_resources(sent)
        self._bundles: tuple[Bundle, ...] = ()
        self._competing = CompetingClaims((), ())
        self._reached: tuple[str, ...] = ()

    def planned(self) -> PlannedDevices:
        """Return the snapshot."""
        sent, own = self._sent, self._own
        every = tuple(dict.fromkeys(filter(has_claims, (*own.specs, *other_specs(sent)))))
        facts = self._facts(every)
        if self._is_together and facts.pools.reached:
            reached = ReachedDevices(sent, facts.pools, facts.eligible, facts.group_of)
            apart = reached.apart(own, self._claims.read)
            if apart:
                own = self._own = with_own_claims(sent, apart=apart)
                every = tuple(dict.fromkeys(filter(has_claims, (*own.specs, *other_specs(sent)))))
            own = reached.planned_specs(own, self._claims.read)
            self._reached = (NONE_LEFT,) if own is not self._own else ()
        self._bundles = self._countable_bundles(every, facts)
        self._competing = self._competing_claims(every, facts)
        names = self._names(facts)
        specs, spec_of = distinct_specs([self._spec(one, facts) for one in asking(own.specs)], own.spec)
        rows = self._by_profile(facts)
        ready, capacity = self._nodes(facts, rows)
        amounts = self._amounts(facts, rows, specs, spec_of, ready.missing)
        resources = FIRST_RESOURCES + tuple(sorted({*sent.resources, *names} - set(FIRST_RESOURCES)))
        templates = rows[ready.of_templates(sent)]
        replaced: dict[str, Any] = {
            table: tuple([self._row(row, specs_of(row), facts) for row in asking(getattr(sent, table))])
            for table, specs_of in SPECS_OF.items()
        }
        snapshot = sent._replace(
            resources=resources,
            specs=specs,
            pods=sent.pods._replace(spec=spec_of),
            nodes=with_columns(sent, sent.nodes, resources, names, amounts, capacity)._replace(
                ready=sent.nodes.ready & ~ready.missing
            ),
            templates=with_columns(sent, sent.templates, resources, names, templates, templates),
            **replaced,
        )
        columns = dict(zip(names, rows.T, strict=True))
        add_plugins(snapshot, facts.requested, columns, (facts.pools.profile, ready.of_templates(sent)))
        if self._before is not None:
            snapshot = share(self._before.snapshot, snapshot)
        return PlannedDevices(snapshot, sent, names, facts, bool(own.leader_of or self._reached))

    def _names(self, facts: _Facts) -> tuple[str, ...]:
        """Return the names of the resources that stand for devices, by column."""
        bundles = map(bundle_resource, self._bundles)
        return (*(one.name for one in facts.columns), *bundles, *self._competing.names, *self._reached)

    def _row(self, row: Any, specs: Sequence[PodRequirements], facts: _Facts) -> Any:
        """Return a row with its specs replaced; most have no claims and stay the same object."""
        if all(spec is self._spec(spec, facts) for spec in specs):
            return row
        return mapped(row, lambda spec: self._spec(spec, facts))

    def _facts(self, specs: Iterable[PodRequirements]) -> _Facts:
        sent, devices = self._sent, self._devices
        asks, taken = set[Ask](), set[Ask]()
        for wanted in dict.fromkeys(map(self._want, asking(specs))):
            asks.update(wanted.asks)
            taken.update(() if takes_nothing(wanted.bundle) else wanted.asks)
        labels = (sent.strings, sent.label_sets, sent.nodes.label_set) if len(devices.node_selectors) else ()
        inputs = _FactInputs(
            (
                devices.slices, devices.device_sets, devices.counter_sets, devices.classes, devices.taint_rules,
                devices.templates, devices.strings, sent.nodes.name, *labels,
            ),
            tuple(sorted(asks, key=repr)),
            frozenset(asks - taken),
        )  # fmt: skip
        known = self._before.facts if self._before is not None else None
        if known is not None and len(known.inputs.parts) == len(inputs.parts) and known.is_of(inputs):
            return known
        return self._new_facts(inputs)

    def _new_facts(self, inputs: _FactInputs) -> _Facts:
        devices = self._devices
        reader = NodePoolReader(self._features)
        declared = {}
        kinds = {}
        for group, templates in asking(devices.templates, every=1):
            made = template_slices(devices, templates, group)
            read = reader.read(made, (group,), lambda _: ())
            declared[group] = int(read.profile[0])
            allocator = DeviceAllocator(made, self._classes.values(), self._features)
            kinds[declared[group]] = NodeOfKind(allocator, DeviceNode(group), pool_indexes(read).get(0, {}))
        label_set = self._sent.nodes.label_set
        names = self._sent.nodes.name
        pools = reader.read_cluster(devices, names, lambda node: self._sent.labels_of(int(label_set[node])))
        eligible = EligibleByAsk(self._classes, self._features, pools.tables)
        # What takes no devices competes with nobody.
        groups = ask_groups([one for one in inputs.asks if one not in inputs.idle], pools, eligible)
        idle = ask_groups([one for one in inputs.asks if one in inputs.idle], pools, eligible)
        groups += [replace(one, is_exact=False) for one in idle]
        columns = columns_of(groups, self._classes)
        requested = {
            ask: tuple([one.name for one in columns if one.group == number and ask in one.asks])
            for number, group in enumerate(groups)
            if group.is_exact
            for ask in group.asks
        }
        problems = {ask: text for group in groups for ask, text in group.problems}
        if pools.error:
            problems = dict.fromkeys(inputs.asks, pools.error)
        totals = DeviceTotals(columns, groups, eligible)
        group_of = {ask: number for number, group in enumerate(groups) for ask in group.asks}
        return _Facts(
            inputs, pools, declared, columns, group_of, requested, problems, totals, eligible,
            devices._replace(claims=NO_DEVICES.claims), self._classes, self._features, kinds, BundleCounter(), {},
        )  # fmt: skip

    def _want(self, spec: PodRequirements) -> _Wanted:
        """Return what the pods of a spec want of devices; the claims of many specs are the same objects."""
        key = id(spec.claims), id(spec.extended_device_requests)
        if key not in self._wanted:
            wanted = _Wanted(tuple(dict.fromkeys(self._asks(spec))), self._counts(spec), self._bundle(spec))
            # The spec keeps what the key names.
            self._wanted[key] = spec, wanted
        return self._wanted[key][1]

    def _asks(self, spec: PodRequirements) -> Iterable[Ask]:
        for claim in spec.claims:
            if isinstance(claim.spec, DeviceClaim) and claim.together != FOLLOWS:
                yield from self._claims.read(claim.spec).asks
        yield from self._extended_asks(spec)

    def _extended_asks(self, spec: PodRequirements) -> Counter[Ask]:
        """Return how many devices extended resources take, where they do."""
        found: Counter[Ask] = Counter()
        for one in spec.extended_device_requests:
            if one.resource in self._extended.everywhere:
                found[Ask(self._extended.everywhere[one.resource])] += one.devices
            elif one.resource in self._extended.beside_plugins:
                name = self._extended.beside_plugins[one.resource]
                found[Ask(name, beside_plugins=one.resource)] += one.devices
        return found

    def _spec(self, spec: PodRequirements, facts: _Facts) -> PodRequirements:
        """Return a spec that requests resources in place of the claims that count."""
        if not has_claims(spec):
            return spec
        if spec not in self._specs:
            self._specs[spec] = self._counted(spec, facts)
        return self._specs[spec]

    def _counted(self, spec: PodRequirements, facts: _Facts) -> PodRequirements:
        for claim in spec.claims:
            problem = claim.problem or self._problem(claim, facts)
            if problem:
                elsewhere = [one for one in spec.claims if one.nodes is not None]
                return spec._replace(claims=(PodClaim(claim.name, claim.shared, None, problem), *elsewhere))
        wanted, gone = self._want(spec), self._delegated_by(spec)
        counts, bundle = wanted.counts, wanted.bundle
        competing = self._competing
        if counts is not None:
            # Where devices of an extended resource cannot be counted, the nodes with a plugin count alone.
            counts = {ask: count for ask, count in counts.items() if not ask.beside_plugins or ask in facts.requested}
        leader = self._own.leader_of.get(spec)
        if leader is not None and self._spec(leader, facts).unsupported:
            return spec._replace(unsupported=(*spec.unsupported, NOT_COUNTED))
        # Claims that count as amounts are left out.
        kept = tuple([one._replace(spec=None) for one in spec.claims if one.nodes is not None or one.together])
        if counts is None or not all(ask in facts.requested or competing.has(ask) for ask in counts):
            if bundle in self._bundles:
                more = {bundle_resource(bundle): 1}
            elif bundle and competing.has(bundle):
                more = competing.requests({bundle: 1})
            else:
                own = tuple([(name, amount) for name, amount in spec.requests if name not in gone])
                return spec._replace(requests=own, unsupported=(*spec.unsupported, NOT_COUNTED))
            return spec._replace(requests=tuple(sorted((*spec.requests, *more.items()))), claims=kept)
        requests = {name: amount for name, amount in spec.requests if name not in gone}
        requests |= competing.requests(counts)
        for ask, count in counts.items():
            for name in facts.requested.get(ask, ()):
                requests[name] = requests.get(name, 0) + count
        return spec._replace(requests=tuple(sorted(requests.items())), claims=kept, extended_device_requests=())

    def _delegated_by(self, spec: PodRequirements) -> set[str]:
        """Return the extended resources of a spec that devices satisfy: no node has an amount of them."""
        return {one.resource for one in spec.extended_device_requests if one.resource in self._extended.everywhere}

    def _counts(self, spec: PodRequirements) -> dict[Ask, int] | None:
        """Return how many devices of each ask the pods of a spec take, None if they ask for more than a number."""
        counts: Counter[Ask] = Counter()
        for claim in spec.claims:
            if claim.together == FOLLOWS:
                continue
            if claim.shared and not claim.together:
                return None
            if isinstance(claim.spec, DeviceClaim):
                demand = self._claims.read(claim.spec)
                if not demand.is_counting:
                    return None
                counts.update(dict(demand.counts))
        return counts + self._extended_asks(spec)

    def _bundle(self, spec: PodRequirements) -> Bundle:
        """Return the claims of a pod as one, () = not all are its own."""
        own = [claim.spec for claim in spec.claims if not claim.shared or claim.together == LEADS]
        claims = tuple([one for one in own if isinstance(one, DeviceClaim)])
        delegated = any(one.resource in self._extended.everywhere for one in spec.extended_device_requests)
        # Those that have devices already, or find some wherever they are reached, ask for nothing.
        asking = [one for one in spec.claims if one.spec is not None or one.shared or one.problem]
        return () if delegated or len(claims) < len(asking) else claims

    def _countable_bundles(self, specs: Iterable[PodRequirements], facts: _Facts) -> tuple[Bundle, ...]:
        """Return the bundles that can be counted."""
        users, found = BundleUsers(facts.group_of), dict[Bundle, tuple[Ask, ...]]()
        for wanted in asking(dict.fromkeys(map(self._want, specs)), every=1):
            asks, counts = wanted.asks, wanted.counts
            if not asks:
                continue
            bundle = () if counts is not None and all(ask in facts.requested for ask in counts) else wanted.bundle
            is_idle = self._is_idle(bundle, asks, facts)
            if not is_idle:
                users.add(bundle or wanted, asks)
            if bundle and not self._is_shared(asks, facts):
                found[bundle] = () if is_idle else asks
        return tuple([bundle for bundle, asks in found.items() if users.is_alone(bundle, asks)])

    def _is_idle(self, bundle: Bundle, asks: Iterable[Ask], facts: _Facts) -> bool:
        """Return whether a bundle takes no devices, and gets the same ones whatever others have."""
        return takes_nothing(bundle) and all(
            facts.eligible.of(ask, pool).is_plain
            for ask in asks
            for profile in facts.pools.profiles
            for pool in profile
        )

    def _is_shared(self, asks: Iterable[Ask], facts: _Facts) -> bool:
        """Return whether several nodes reach some device."""
        return any(facts.eligible.of(ask, pool).bits for ask in asks for pool in facts.pools.shared)

    def _competing_claims(self, specs: Iterable[PodRequirements], facts: _Facts) -> CompetingClaims:
        """Return the claims that compete with others unlike them."""
        uses = []
        for wanted in asking(dict.fromkeys(map(self._want, specs)), every=1):
            asks, counts = wanted.asks, wanted.counts
            if self._is_idle(wanted.bundle, asks, facts):
                continue
            if not asks or self._is_shared(asks, facts) or any(one in facts.problem_of for one in asks):
                continue
            if counts is not None and not all(
                facts.eligible.of(ask, pool).is_exclusive
                for ask in asks for profile in facts.pools.profiles for pool in profile
            ):  # fmt: skip
                counts = None
            uses.append(ClaimUse(asks, counts, wanted.bundle))
        found = competitions(uses, facts.group_of, facts.requested, self._bundles)

        for one in found:
            if one not in facts.layouts:
                facts.layouts[one] = KnownLayouts(one, facts.eligible, facts.pools, facts.features.version)
        new = [partial(self._new_node, facts, profile) for profile in range(len(facts.pools.profiles))] if found else []
        return CompetingClaims([facts.layouts[one] for one in found], new)

    def _new_node(self, facts: _Facts, profile: int) -> NodeOfKind:
        """Return a node of a profile, or one that will be."""
        known = facts.declared_kinds.get(profile)
        return known or self._node(facts, int(np.argmax(facts.pools.profile == profile)))

    def _node(self, facts: _Facts, node: int) -> NodeOfKind:
        return NodeOfKind(facts.allocator, node_of(self._sent, node), facts.indexes.get(node, {}))

    def _problem(self, claim: PodClaim, facts: _Facts) -> str:
        if not isinstance(claim.spec, DeviceClaim):
            return ""
        demand = self._claims.read(claim.spec)
        found = next((facts.problem_of[ask] for ask in demand.asks if ask in facts.problem_of), "")
        return demand.problem or found

    def _by_profile(self, facts: _Facts) -> Int64:
        """Return the devices, and the bundles, of a node of each profile of which none is in use : int64[profiles,
        columns]."""
        profiles = range(len(facts.pools.profiles))
        rows = [self._of_profile(facts, profile) for profile in asking(profiles, every=1)]
        return np.array(rows, np.int64).reshape(len(rows), -1)

    def _of_profile(self, facts: _Facts, profile: int) -> list[int]:
        """Return the devices, and the bundles, of a node of which none is in use."""
        pools = facts.pools.profiles[profile]
        counts = [0] * len(self._bundles)
        if pools and counts:
            kind = self._new_node(facts, profile)
            counts = [facts.bundles.count(bundle, pools, kind, ()) for bundle in self._bundles]
        return [*facts.totals.of(pools), *counts, *self._competing.full(profile), *(0 for _ in self._reached)]

    def _nodes(self, facts: _Facts, rows: Int64) -> tuple[PublishedDevices, Int64]:
        """Return which nodes lack devices that they will have, and the devices of each : int64[N, columns]."""
        published = published_devices(self._sent, facts.pools, facts.declared)
        capacity: Int64 = rows[facts.pools.profile]
        for node in np.flatnonzero(published.missing).tolist():
            capacity[node] = rows[published.expected[self._sent.nodes.group[node]]]
        return published, capacity

    def _amounts(
        self, facts: _Facts, rows: Int64, specs: Sequence[PodRequirements], spec_of: Int32, missing: Bool
    ) -> Int64:
        """Return the amounts that nodes offer : int64[N, columns]. rows : of nodes of which no device is in use."""
        sent, columns, count = self._sent, facts.columns, len(self._sent.nodes.name)
        used = used_devices(self._devices, facts.pools, facts.totals, max(len(facts.group_of), 1), count)
        amounts: Int64 = rows[facts.pools.profile]
        amounts[missing, : len(columns)] = 0
        for at, one in enumerate(columns):
            if one.group >= 0:
                amounts[:, at] -= np.where(amounts[:, at] > 0, used[:, one.group], 0)
        self._recount(facts, amounts)
        names = self._names(facts)
        place = {name: at for at, name in enumerate(names)}
        reserve_memory(8 * len(names) * (len(specs) + 4 * count), "nodes and pod specs times devices")
        demands = np.zeros((len(specs), len(names)), np.int64)
        for row, spec in enumerate(asking(specs)):
            for name, amount in spec.requests:
                if name in place:
                    demands[row, place[name]] = amount
        pods = sent.pods
        having: Bool = demands.sum(axis=1) > 0
        placed = np.flatnonzero((pods.node >= 0) & ~pods.is_terminal() & having[spec_of])
        np.add.at(amounts, pods.node[placed], demands[spec_of[placed]])
        found: Int64 = np.maximum(amounts, 0)
        return found

    def _recount(self, facts: _Facts, amounts: Int64) -> None:
        """Count bundles, and what is left to claims that compete, of nodes of which devices are in use. Writes into
        `amounts`."""
        if not (self._bundles or self._competing.names):
            return
        first = len(facts.columns)
        for node, used in asking(sorted(used_on(self._devices, facts.pools).items()), every=1):
            number = int(facts.pools.profile[node])
            profile, kind = facts.pools.profiles[number], self._node(facts, node)
            for at, bundle in enumerate(self._bundles, first):
                if amounts[node, at]:
                    amounts[node, at] = facts.bundles.count(bundle, profile, kind, used)
            if self._competing.names:
                left = self._competing.left(number, kind, used)
                amounts[node, first + len(self._bundles) :][: len(left)] = left
