"""The snapshot with which decisions are made: devices that can be counted have become resources.

Each kind of claims is a resource (`competing_claims`): nodes offer as many as they can have beside what claims other
than the placed pods' take, and pods request what they claim. So whatever is decided with amounts is decided with
devices too: where pods fit, how many nodes they need, the cheapest ones, what limits allow. Each class is a resource as
well, which limits may name. Pods with claims that cannot be counted are not placed. A node whose drivers have not
published what they publish elsewhere in its group is not ready, and offers none.

Nothing else of a snapshot changes, and nothing at all if it has no devices. Cost: O(nodes) with some microseconds each
if slices have changed, else columns of claims and pods; see `PlannedDevices`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import (
    classes_of,
    extended_resources,
    features_of,
    resource_of_class,
)
from trimtab.planner.device_amounts.competing_claims import NO_CLAIMS, ClaimUse, CompetingClaims, claim_kinds
from trimtab.planner.device_amounts.device_facts import DeviceFacts, FactInputs, device_facts
from trimtab.planner.device_amounts.kind_counts import ClaimKind, KindCounts
from trimtab.planner.device_amounts.pod_claims import (
    DeviceFilter,
    PodClaims,
    claim_demand,
    takes_nothing,
    uses_of_nodes,
)
from trimtab.planner.device_amounts.published import PublishedDevices, add_plugins, published_devices, with_columns
from trimtab.planner.device_amounts.shared_claims import NONE_LEFT, ReachedDevices, with_own_claims
from trimtab.planner.devices.model import DeviceClaim
from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.model.values import FOLLOWS, LEADS, ONE_KIND, Owner, PodClaim, PodGroup, PodRequirements
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import FIRST_RESOURCES
from trimtab.planner.snapshot.sealing import share


def _of_template(row: Owner | PodGroup) -> list[PodRequirements]:
    return [] if row.pod_template is None else [row.pod_template.spec]


SPECS_OF: Final[dict[str, Callable[[Any], list[PodRequirements]]]] = {
    "groups": lambda row: [pod.spec for pod in row.daemonset_pods],
    "owners": _of_template,
    "pod_groups": _of_template,
    "slack_requests": lambda row: [row.spec],
    "capacity_requests": lambda row: [pod_set.spec for pod_set in row.pod_sets],
}
"""The specs in rows of other tables than the pods."""


def other_specs(sent: Snapshot) -> list[PodRequirements]:
    """Return all of these specs."""
    return [spec for table, specs_of in SPECS_OF.items() for row in getattr(sent, table) for spec in specs_of(row)]


def has_claims(spec: PodRequirements) -> bool:
    """Return whether pods of a spec may want devices."""
    return bool(spec.claims or spec.extended_device_requests)


def distinct_specs(specs: Sequence[PodRequirements], of: Int32) -> tuple[tuple[PodRequirements, ...], Int32]:
    """Return specs each once, as in any snapshot, and the spec of each pod. of : int32[P] into `specs`."""
    number: dict[PodRequirements, int] = {}
    moved = np.array([number.setdefault(spec, len(number)) for spec in specs], np.int32)
    return (tuple(specs), of) if len(number) == len(specs) else (tuple(number), moved[of])


def mapped(value: Any, replaced: Callable[[PodRequirements], PodRequirements]) -> Any:
    """Return a row, or what it consists of, with its specs replaced."""
    if isinstance(value, PodRequirements):
        return replaced(value)
    if not isinstance(value, tuple):
        return value
    parts = [mapped(part, replaced) for part in value]
    return type(value)._make(parts) if hasattr(value, "_make") else tuple(parts)


NOT_COUNTED: Final = "resourceClaims"
"""In `PodRequirements.unsupported`: claims that only the allocator decides."""


class MixtureLimits(NamedTuple):
    """What claims that compete may have of nodes beyond what amounts say, as the allocator has refused more."""

    of_nodes: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    """Amounts by row of a node and name of a resource."""
    new_nodes: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    """Amounts by layout of a new node and name of a resource."""
    is_one_kind: bool = False
    """Each node gets claims of one kind."""


NO_LIMITS: Final = MixtureLimits()


@dataclass(frozen=True)
class PlannedDevices:
    """The snapshot with which decisions are made."""

    snapshot: Snapshot
    sent: Snapshot
    """The one that was sent."""
    resources: tuple[str, ...] = ()
    """Names of those that stand for devices."""
    facts: DeviceFacts | None = None
    """For the next snapshot."""
    has_pods_together: bool = False
    """Some pods are planned together, as no pod is for itself."""
    competing: CompetingClaims = NO_CLAIMS
    expected: tuple[int, ...] = ()
    """The layout of a new node of each node group."""


def planned_snapshot(
    sent: Snapshot,
    before: PlannedDevices | None = None,
    *,
    is_together: bool = True,
    limits: MixtureLimits = NO_LIMITS,
) -> PlannedDevices:
    """Return the snapshot with which decisions are made. before : that of an earlier snapshot, of which what has not
    changed is taken over; is_together : pods are planned together, those that share a claim without devices and those
    that want devices which several nodes reach, otherwise such pods are not placed; limits : of an earlier plan."""
    if sent.devices.is_empty and not any(spec.claims for spec in (*sent.specs, *other_specs(sent))):
        return PlannedDevices(sent, sent)
    return _Planner(sent, before, limits, is_together=is_together).planned()


class _Planner:
    """Derives one snapshot."""

    def __init__(
        self, sent: Snapshot, before: PlannedDevices | None, limits: MixtureLimits, *, is_together: bool
    ) -> None:
        self._sent, self._before, self._limits, self._is_together = sent, before, limits, is_together
        self._own = with_own_claims(sent, is_together=is_together)
        self._devices = sent.devices
        self._features = features_of(self._devices)
        self._classes = classes_of(self._devices)
        # Most pods have claims like others.
        self._demand_of = cache(partial(claim_demand, classes=self._classes, features=self._features))
        self._specs: dict[PodRequirements, PodRequirements] = {}
        self._wanted: dict[tuple[int, int], tuple[PodRequirements, ClaimUse]] = {}
        self._extended = extended_resources(sent)
        self._competing = NO_CLAIMS
        self._reached: tuple[str, ...] = ()

    def planned(self) -> PlannedDevices:
        """Return the snapshot."""
        sent, own = self._sent, self._own
        facts = self._facts(filter(has_claims, (*own.specs, *other_specs(sent))))
        if self._is_together and facts.pools.reached:
            reached = ReachedDevices(sent, facts, self._demand_of)
            own = self._own = with_own_claims(sent, reached=reached)
            self._reached = (NONE_LEFT,) if reached.is_used else ()
        self._competing = self._competing_claims(filter(has_claims, (*own.specs, *other_specs(sent))), facts)
        names = self._names(facts)
        specs, spec_of = distinct_specs([self._spec(spec, facts) for spec in asking(own.specs)], own.spec)
        rows = self._by_layout(facts)
        ready, capacity = self._nodes(facts, rows)
        amounts = self._amounts(facts, rows, specs, spec_of, ready.missing)
        resources = FIRST_RESOURCES + tuple(sorted({*sent.resources, *names} - set(FIRST_RESOURCES)))
        templates = self._limited(names, rows, self._limits.new_nodes)[ready.of_templates(sent)]
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
        add_plugins(snapshot, self._competing.requested, columns, (facts.pools.layout, ready.of_templates(sent)))
        if self._before is not None:
            snapshot = share(self._before.snapshot, snapshot)
        is_together = bool(own.leader_of or self._reached)
        return PlannedDevices(snapshot, sent, names, facts, is_together, self._competing, ready.expected)

    @staticmethod
    def _limited(names: Sequence[str], amounts: Int64, limits: Mapping[int, Mapping[str, int]]) -> Int64:
        """Return amounts : int64[rows, names], limited in some rows."""
        limited = amounts.copy() if limits else amounts
        for row, bounds in limits.items():
            for at, name in enumerate(names):
                limited[row, at] = min(limited[row, at], bounds.get(name, limited[row, at]))
        return limited

    def _names(self, facts: DeviceFacts) -> tuple[str, ...]:
        """Return the names of the resources that stand for devices, by column."""
        names = map(resource_of_class, facts.classes)
        return (*(name for name in names if name not in self._competing.names), *self._competing.names, *self._reached)

    def _row(self, row: Any, specs: Sequence[PodRequirements], facts: DeviceFacts) -> Any:
        """Return a row with its specs replaced; most have no claims and stay the same object."""
        if all(spec is self._spec(spec, facts) for spec in specs):
            return row
        return mapped(row, lambda spec: self._spec(spec, facts))

    def _facts(self, specs: Iterable[PodRequirements]) -> DeviceFacts:
        sent, devices = self._sent, self._devices
        filters, consumed = set[DeviceFilter](), set[DeviceFilter]()
        for wanted in dict.fromkeys(map(self._want, asking(specs))):
            filters.update(wanted.filters)
            consumed.update(() if takes_nothing(wanted.pod_claims) else wanted.filters)
        labels = (sent.strings, sent.label_sets, sent.nodes.label_set) if len(devices.node_selectors) else ()
        inputs = FactInputs(
            (
                devices.slices, devices.device_sets, devices.counter_sets, devices.classes, devices.taint_rules,
                devices.templates, devices.strings, sent.nodes.name, *labels,
            ),
            tuple(sorted(filters, key=repr)),
            frozenset(filters - consumed),
        )  # fmt: skip
        facts = self._before.facts if self._before is not None else None
        if facts is not None and len(facts.inputs.parts) == len(inputs.parts) and facts.is_of(inputs):
            return facts
        return device_facts(inputs, sent, self._classes, self._features)

    def _want(self, spec: PodRequirements) -> ClaimUse:
        """Return what the pods of a spec want of devices; the claims of many specs are the same objects."""
        key = id(spec.claims), id(spec.extended_device_requests)
        if key not in self._wanted:
            wanted = ClaimUse(tuple(dict.fromkeys(self._filters(spec))), self._counts(spec), self._pod_claims(spec))
            # The spec keeps what the key names.
            self._wanted[key] = spec, wanted
        return self._wanted[key][1]

    def _filters(self, spec: PodRequirements) -> Iterable[DeviceFilter]:
        for claim in spec.claims:
            if isinstance(claim.spec, DeviceClaim) and claim.together != FOLLOWS:
                yield from self._demand_of(claim.spec).filters
        yield from self._extended_filters(spec)

    def _extended_filters(self, spec: PodRequirements) -> Counter[DeviceFilter]:
        """Return how many devices extended resources take, where they do."""
        counts: Counter[DeviceFilter] = Counter()
        for request in spec.extended_device_requests:
            if request.resource in self._extended.class_of:
                beside = request.resource if request.resource in self._extended.beside_plugins else ""
                counts[DeviceFilter(self._extended.class_of[request.resource], beside_plugins=beside)] += (
                    request.devices
                )
        return counts

    def _spec(self, spec: PodRequirements, facts: DeviceFacts) -> PodRequirements:
        """Return a spec that requests resources in place of the claims that count."""
        if not has_claims(spec):
            return spec
        if spec not in self._specs:
            self._specs[spec] = self._counted(spec, facts)
        return self._specs[spec]

    def _counted(self, spec: PodRequirements, facts: DeviceFacts) -> PodRequirements:
        for claim in spec.claims:
            problem = claim.problem or self._problem(claim, facts)
            if problem:
                elsewhere = [other for other in spec.claims if other.nodes is not None]
                return spec._replace(claims=(PodClaim(claim.name, claim.shared, None, problem), *elsewhere))
        wanted, gone = self._want(spec), self._delegated_by(spec)
        counts, pod_claims = wanted.counts, wanted.pod_claims
        competing = self._competing
        if counts is not None:
            # Where devices of an extended resource cannot be counted, the nodes with a plugin count alone.
            counts = {
                device_filter: count
                for device_filter, count in counts.items()
                if not device_filter.beside_plugins or device_filter in competing.requested
            }
        leader = self._own.leader_of.get(spec)
        if leader is not None and self._spec(leader, facts).unsupported:
            return spec._replace(unsupported=(*spec.unsupported, NOT_COUNTED))
        # Claims that count as amounts are left out.
        claims = tuple(
            [of_pod._replace(spec=None) for of_pod in spec.claims if of_pod.nodes is not None or of_pod.together]
        )
        if counts is None or not all(map(competing.has, counts)):
            if not (pod_claims and competing.has(pod_claims)):
                own = tuple([(name, amount) for name, amount in spec.requests if name not in gone])
                return spec._replace(requests=own, unsupported=(*spec.unsupported, NOT_COUNTED))
            more = competing.requests({pod_claims: 1})
            claims += self._kind_marks(more)
            return spec._replace(requests=tuple(sorted((*spec.requests, *more.items()))), claims=claims)
        more = competing.requests(counts)
        requests = {name: amount for name, amount in spec.requests if name not in gone} | more
        claims += self._kind_marks(more)
        return spec._replace(requests=tuple(sorted(requests.items())), claims=claims, extended_device_requests=())

    def _kind_marks(self, requests: Collection[str]) -> tuple[PodClaim, ...]:
        """Return what keeps pods off nodes with claims of other kinds. requests : names of what they request."""
        marks = {
            ("+".join(sorted(names)), "+".join(sorted(names & {*requests})))
            for names in (self._competing.mixtures.values() if self._limits.is_one_kind else ())
        }
        return tuple([PodClaim(kind, mixture, None, "", None, ONE_KIND) for mixture, kind in sorted(marks) if kind])

    def _delegated_by(self, spec: PodRequirements) -> set[str]:
        """Return the extended resources of a spec that devices satisfy: no node has an amount of them."""
        names = {request.resource for request in spec.extended_device_requests}
        return names & self._extended.class_of.keys() - self._extended.beside_plugins

    def _counts(self, spec: PodRequirements) -> dict[DeviceFilter, int] | None:
        """Return how many devices of each filter the pods of a spec take, None if they ask for more than a number."""
        counts: Counter[DeviceFilter] = Counter()
        for claim in spec.claims:
            if claim.together == FOLLOWS:
                continue
            if claim.shared and not claim.together:
                return None
            if isinstance(claim.spec, DeviceClaim):
                demand = self._demand_of(claim.spec)
                if not demand.is_counting:
                    return None
                counts.update(dict(demand.counts))
        return counts + self._extended_filters(spec)

    def _pod_claims(self, spec: PodRequirements) -> PodClaims:
        """Return the claims of a pod as one, () = not all are its own."""
        own = [claim.spec for claim in spec.claims if not claim.shared or claim.together == LEADS]
        claims = tuple([claim_spec for claim_spec in own if isinstance(claim_spec, DeviceClaim)])
        # Those that have devices already, or find some wherever they are reached, ask for nothing.
        claiming = [of_pod for of_pod in spec.claims if of_pod.spec is not None or of_pod.shared or of_pod.problem]
        return () if self._delegated_by(spec) or len(claims) < len(claiming) else claims

    def _competing_claims(self, specs: Iterable[PodRequirements], facts: DeviceFacts) -> CompetingClaims:
        """Return the claims that are no mere number of devices, or compete with others unlike them."""
        uses, idle = [], dict[PodClaims, None]()
        for wanted in asking(dict.fromkeys(map(self._want, specs)), every=1):
            filters, counts = wanted.filters, wanted.counts
            if (
                not filters
                or facts.is_shared(filters)
                or any(device_filter in facts.problem_of for device_filter in filters)
            ):
                continue
            if facts.is_idle(wanted.pod_claims, filters):
                idle[wanted.pod_claims] = None
                continue
            if counts is not None and not all(
                facts.eligible.of(device_filter, pool).is_exclusive
                for device_filter in filters for layout in facts.pools.layouts for pool in layout
            ):  # fmt: skip
                counts = None
            uses.append(ClaimUse(filters, counts, wanted.pod_claims))
        listed = claim_kinds(uses, facts.group_of, facts.exact)
        listed = listed._replace(
            kinds={**listed.kinds, **{pod_claims: ClaimKind(None, pod_claims, False) for pod_claims in idle}}
        )
        count_of = {}
        for key, kind in listed.kinds.items():
            if kind not in facts.known_counts:
                facts.known_counts[kind] = KindCounts(kind, facts.eligible, facts.pools, facts.features)
            count_of[key] = facts.known_counts[kind]
        new_nodes = [partial(facts.new_node, self._sent, layout) for layout in range(len(facts.pools.layouts))]
        return CompetingClaims(listed, count_of, new_nodes)

    def _problem(self, claim: PodClaim, facts: DeviceFacts) -> str:
        if not isinstance(claim.spec, DeviceClaim):
            return ""
        demand = self._demand_of(claim.spec)
        of_device = next(
            (facts.problem_of[device_filter] for device_filter in demand.filters if device_filter in facts.problem_of),
            "",
        )
        return demand.problem or of_device

    def _by_layout(self, facts: DeviceFacts) -> Int64:
        """Return what a node of each layout has of which nothing is in use : int64[layouts, columns]."""
        alone = [at for at, name in enumerate(facts.classes) if resource_of_class(name) not in self._competing.names]
        rows = [
            [*(totals[at] for at in alone), *self._competing.left(layout), *(0 for _ in self._reached)]
            for layout, totals in enumerate(asking(facts.totals, every=1))
        ]
        return np.array(rows, np.int64).reshape(len(rows), -1)

    def _nodes(self, facts: DeviceFacts, rows: Int64) -> tuple[PublishedDevices, Int64]:
        """Return which nodes lack devices that they will have, and the devices of each : int64[N, columns]."""
        published = published_devices(self._sent, facts.pools, facts.declared)
        capacity: Int64 = rows[facts.pools.layout]
        for node in np.flatnonzero(published.missing).tolist():
            capacity[node] = rows[published.expected[self._sent.nodes.group[node]]]
        return published, capacity

    def _amounts(
        self, facts: DeviceFacts, rows: Int64, specs: Sequence[PodRequirements], spec_of: Int32, missing: Bool
    ) -> Int64:
        """Return the amounts that nodes offer : int64[N, columns]. rows : of nodes of which no device is in use."""
        sent, count = self._sent, len(self._sent.nodes.name)
        amounts: Int64 = rows[facts.pools.layout]
        last = amounts.shape[1] - len(self._reached)
        for use, nodes in asking(uses_of_nodes(self._devices, facts.pools), every=1):
            free = self._competing.left(int(facts.pools.layout[nodes[0]]), use)
            amounts[nodes, last - len(free) : last] = free
        amounts[missing] = 0
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
        return self._limited(names, np.maximum(amounts, 0), self._limits.of_nodes)
