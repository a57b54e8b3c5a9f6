"""NodePools as node groups: one for each NodePool and each offering that its requirements allow, named
"POOL/TYPE/ZONE/CAPACITY TYPE", with the labels and taints that Karpenter gives to such a node, and settings for what
pools ask of plans (`pool_settings`).

Decides which nodes are in which group (by their labels), which labels a new node has, and what is noted. A pool with a
field that cannot be used gets no new nodes, and a note names pool and field; all others go on. A group whose offering a
pool no longer has keeps its nodes and does not grow. Deterministic: pools, offerings and groups are sorted by name.
Source: Karpenter, pkg/controllers/provisioning/scheduling (labels and requirements of a NodeClaim).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, Final, NamedTuple

from trimtab.common.kubernetes.kinds.karpenter import (
    ClaimTemplate,
    ClaimTemplateSpec,
    NodeClaim,
    NodePool,
    NodePoolSpec,
    PoolDisruption,
)
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import (
    Node,
    NodeGroup,
    NodeGroupSpec,
    NodeSpec,
    NodeStatus,
    Taint,
    TemplateNode,
)
from trimtab.common.kubernetes.kinds.policies import ObjectCondition
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.signals.karpenter import POOL_READY
from trimtab.common.objects.dominated_groups import ROOM
from trimtab.common.objects.karpenter.min_values import too_few_values, with_min_values
from trimtab.common.objects.karpenter.offers import (
    CAPACITY_TYPE,
    POOL,
    ZONE,
    MachineOffer,
    OfferKey,
    completed,
    is_of_machines,
    key_of,
    present_offers,
)
from trimtab.common.objects.karpenter.pool_settings import (
    add_ranks,
    budget_of,
    closed_budget,
    default_budget,
    drain_rules,
    group_settings,
    limits_of,
    weights,
)
from trimtab.common.objects.karpenter.requirements import PoolRules, rules_of
from trimtab.common.objects.node_groups import Membership
from trimtab.v1 import plan_pb2
from trimtab.words import counted

MOST_VARIANTS: Final = 16
"""Most groups of one pool and offering that differ in labels for which the pool allows several values."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MOST_NAMED: Final = 3


class KarpenterObjects(NamedTuple):
    """The objects of a cluster that decide. declared : NodeGroup objects; their nodes stay theirs."""

    pools: Sequence[NodePool]
    claims: Sequence[NodeClaim]
    nodes: Sequence[Node]
    declared: Sequence[NodeGroup] = ()


def karpenter_objects(by_kind: Mapping[str, Sequence[Any]]) -> KarpenterObjects:
    """Return the objects that decide about the node groups of NodePools."""
    kinds = ("NodePool", "NodeClaim", "Node", "NodeGroup")
    return KarpenterObjects(*(by_kind.get(kind, ()) for kind in kinds))


class PoolGroups(NamedTuple):
    """Node groups, sorted by name, and what the pools ask of plans; notes : for the user."""

    groups: list[NodeGroup]
    settings: plan_pb2.PlanSettings
    notes: list[str]


_NOT_YET: Final = (None, "", "AwaitingReconciliation")
"""Reasons of `Launched` while nobody has tried to launch a machine."""


class _CheckedPool(NamedTuple):
    """A pool whose fields were checked."""

    name: str
    template: ClaimTemplate
    spec: ClaimTemplateSpec
    rules: PoolRules
    grows: bool
    variants: list[dict[str, str]]


def pool_groups(objects: KarpenterObjects, offers: Sequence[MachineOffer] | None = None) -> PoolGroups:
    """Return the node groups of NodePools. offers : None = those of the nodes and NodeClaims. O(pools * offers)."""
    return _PoolReader(objects, offers).read()


class _PoolReader:
    """The state of one call."""

    def __init__(self, objects: KarpenterObjects, offers: Sequence[MachineOffer] | None) -> None:
        present = present_offers(objects.nodes, objects.claims)
        self._given = objects
        self._offers = present if offers is None else completed(offers, present, _zones(objects.pools))
        self._whole = {offer.key: offer for offer in self._offers}
        self._is_inferred = offers is None
        self._settings, self._notes = plan_pb2.PlanSettings(), list[str]()
        self._members = _members(objects)
        self._claimed = _claims_without_node(objects)
        self._ignored: defaultdict[str, list[str]] = defaultdict(list)

    def read(self) -> PoolGroups:
        """Build everything."""
        pools = sorted(self._given.pools, key=_name)
        groups: list[NodeGroup] = []
        for pool in pools:
            groups.extend(self._groups_of(pool))
        add_ranks(self._settings, weights(pools))
        self._add_startup_taints(pools)
        self._add_notes(pools, groups)
        taken = {_name(group) for group in self._given.declared}
        return PoolGroups([one for one in groups if _name(one) not in taken], self._settings, self._notes)

    def _groups_of(self, pool: NodePool) -> list[NodeGroup]:
        read = self._checked(pool)
        growing = self._allowed_offers(read) if read.grows else []
        groups = [self._group(read, offer, variant) for offer in growing for variant in read.variants]
        have = {_name(group) for group in groups}
        groups = [*groups, *self._remaining(read.name, have)]
        self._add_disruption(pool, [_name(group) for group in groups])
        return sorted(groups, key=_name)

    def _checked(self, pool: NodePool) -> _CheckedPool:
        """Return a pool with checked fields; one with a field that cannot be used does not grow."""
        name, spec = _name(pool), pool.spec or NodePoolSpec()
        template = spec.template or ClaimTemplate()
        of_claims = template.spec or ClaimTemplateSpec()
        grows, rules = True, PoolRules({})
        try:
            if pool.spec is None or spec.template is None:
                raise FieldError("spec.template", "it is missing or cannot be read", "give what kubectl prints")
            with below("spec.template.spec.requirements"):
                rules = rules_of(of_claims.requirements or ())
            _check_taints(of_claims.taints or ())
            with below("spec.limits"):
                limits = limits_of(name, spec.limits)
            if limits:
                self._settings.planner.limits.extend(limits)
        except FieldError as error:
            self._notes.append(f"NodePool {name}: {error}; the pool gets no new nodes")
            grows = False
        if spec.replicas is not None:
            self._notes.append(
                f"NodePool {name}: spec.replicas is {spec.replicas}: its size is fixed, so it does not grow"
            )
            grows = False
        for condition in (pool.status and pool.status.conditions) or ():
            if condition.type == POOL_READY.key and condition.status == "False":
                said = f": {condition.message}" if condition.message else ""
                self._notes.append(f"NodePool {name}: its condition Ready is False{said}; the pool gets no new nodes")
                grows = False
        is_deleted = pool.metadata is not None and pool.metadata.deletion_timestamp is not None
        return _CheckedPool(name, template, of_claims, rules, grows and not is_deleted, self._variants(name, rules))

    def _variants(self, name: str, rules: PoolRules) -> list[dict[str, str]]:
        """Return the labels that requirements on keys of the pool's own give to nodes: one set for each combination."""
        own = [key for key in rules.keys if not is_of_machines(key)]
        choices = {key: rules.values_of(key) for key in own}
        unknown = [key for key in own if not choices[key] and rules.allows(key, None) is False]
        if unknown:
            self._notes.append(
                f"NodePool {name}: spec.template.spec.requirements: {', '.join(unknown)} may have any value, which "
                "only a pod decides; new nodes are planned without it"
            )
        choices = {key: values for key, values in choices.items() if values}
        every = list(islice(product(*choices.values()), MOST_VARIANTS + 1))
        if len(every) > MOST_VARIANTS:
            self._notes.append(
                f"NodePool {name}: spec.template.spec.requirements allow more than {MOST_VARIANTS} combinations of "
                f"{', '.join(choices)}; the first {MOST_VARIANTS} are planned with"
            )
        return [dict(zip(choices, values, strict=True)) for values in every[:MOST_VARIANTS]]

    def _allowed_offers(self, pool: _CheckedPool) -> list[MachineOffer]:
        """Return the offerings that a pool allows. A requirement on a label that no offering has is not checked."""
        keys = [key for key in pool.rules.keys if is_of_machines(key)]
        known = [key for key in keys if any(key in offer.labels for offer in self._offers)]
        for key in set(keys) - set(known):
            if not pool.rules.allows(key, None):
                self._ignored[key].append(pool.name)
        verdicts: dict[tuple[str, str | None], bool] = {}
        allowed = []
        for offer in self._offers:
            for key in known:
                value = offer.labels.get(key)
                verdict = verdicts.get((key, value))
                if verdict is None:
                    verdict = verdicts[key, value] = pool.rules.allows(key, value)
                if not verdict:
                    break
            else:
                allowed.append(offer)
        if self._offers and not allowed:
            self._notes.append(f"NodePool {pool.name}: spec.template.spec.requirements allow none of the offerings")
        return self._diverse_offers(pool, allowed)

    def _diverse_offers(self, pool: _CheckedPool, allowed: list[MachineOffer]) -> list[MachineOffer]:
        """Return offerings with what `minValues` lets new nodes hold. Where only offerings in use are known, there are
        others that Karpenter chooses from, so nothing follows."""
        lacking = too_few_values(pool.rules, allowed)
        for rule, count in lacking:
            effect = "those not in use may be among the rest" if self._is_inferred else "so it gets no new nodes"
            self._notes.append(
                f"NodePool {pool.name}: spec.template.spec.requirements[{rule.place}].minValues: {rule.min_values} "
                f"values of {rule.key} are required, there are {count}; {effect}"
            )
        if self._is_inferred or not pool.rules.diverse:
            return allowed
        return [] if lacking else with_min_values(pool.rules, allowed)

    def _group(self, pool: _CheckedPool, offer: MachineOffer, variant: Mapping[str, str]) -> NodeGroup:
        name = "/".join((pool.name, *(part or "-" for part in offer.key), *variant.values()))
        nodes = sorted(self._members.pop((pool.name, offer.key, frozenset(variant.items())), ())) if variant else []
        nodes = nodes or sorted(self._members.pop((pool.name, offer.key, frozenset()), ()))
        of_pool = (pool.template.metadata and pool.template.metadata.labels) or {}
        labels = {**offer.labels, **variant, **of_pool, POOL: pool.name}
        waiting = self._claimed.pop((pool.name, offer.key), 0)
        # What is on its way has all its room, whatever new nodes may be planned to hold.
        allocatable = self._whole[offer.key].allocatable if waiting else offer.allocatable
        return NodeGroup(
            ObjectMeta(name=name),
            NodeGroupSpec(
                min_size=0,
                max_size=len(nodes) + waiting + ROOM,  # as many as one plan adds by default
                target_size=len(nodes) + waiting,
                nodes=nodes or None,
                price=offer.price,
                template=TemplateNode(
                    ObjectMeta(labels=labels),
                    NodeSpec(taints=list(pool.spec.taints or ())),
                    NodeStatus(capacity=offer.capacity, allocatable=allocatable),
                ),
            ),
        )

    def _remaining(self, pool: str, have: set[str]) -> list[NodeGroup]:
        """Return groups for the nodes of a pool whose offering it does not have; they do not grow."""
        prices = {offer.key: offer.price for offer in self._offers}
        price_of: dict[str, float | None] = {}
        groups: dict[str, list[str]] = defaultdict(list)
        for of_pool, key, variant in [member for member in self._members if member[0] == pool]:
            name = "/".join((pool, *(part or "-" for part in key)))
            name = f"{name}/not-offered" if name in have else name
            groups[name].extend(self._members.pop((of_pool, key, variant)))
            price_of[name] = prices.get(key)
        return [
            NodeGroup(
                ObjectMeta(name=name),
                NodeGroupSpec(
                    min_size=0,
                    max_size=len(nodes),
                    target_size=len(nodes),
                    nodes=sorted(nodes),
                    price=price_of[name],
                ),
            )
            for name, nodes in groups.items()
        ]

    def _add_disruption(self, pool: NodePool, groups: Sequence[str]) -> None:
        """Add what a pool says about disruption. A budget that cannot be read counts as 0 nodes, as in Karpenter."""
        name = _name(pool)
        disruption = (pool.spec and pool.spec.disruption) or PoolDisruption()
        budgets = self._settings.planner.disruption_budgets
        for place, budget in enumerate(disruption.budgets or ()):
            try:
                with below(f"spec.disruption.budgets[{place}]"):
                    budgets.append(budget_of(name, budget))
            except FieldError as error:
                self._notes.append(f"NodePool {name}: {error}; it counts as 0 nodes")
                budgets.append(closed_budget(name))
        if not disruption.budgets:
            budgets.append(default_budget(name))
        try:
            with below("spec.disruption"):
                rules = drain_rules(disruption)
        except FieldError as error:
            self._notes.append(f"NodePool {name}: {error}; its nodes count as not to be disrupted")
            rules = drain_rules(PoolDisruption(consolidate_after="Never"))
        settings = group_settings(rules)
        if settings is not None:
            for group in groups:
                self._settings.node_groups[group].CopyFrom(settings)

    def _add_startup_taints(self, pools: Sequence[NodePool]) -> None:
        templates = [pool.spec.template.spec for pool in pools if pool.spec and pool.spec.template]
        keys = {taint.key for spec in templates if spec is not None for taint in spec.startup_taints or ()}
        if any(keys):
            self._settings.scale_up.startup_taints.keys.extend(sorted(filter(None, keys)))

    def _add_notes(self, pools: Sequence[NodePool], groups: Sequence[NodeGroup]) -> None:
        growing = sum(1 for group in groups if group.spec and group.spec.template)
        source = "that nodes and NodeClaims have now; --offers FILE gives all" if self._is_inferred else "of the file"
        self._notes.append(
            f"{counted(len(pools), 'NodePool')} with {counted(len(self._offers), 'offering')} {source}: "
            f"{counted(growing, 'node group')} that may grow"
        )
        for key, names in sorted(self._ignored.items()):
            self._notes.append(
                f"NodePool {_few(names)}: spec.template.spec.requirements: no offering states its {key}, so all "
                "count as allowed"
            )
        absent = Counter(pool for (pool, _, _), nodes in self._members.items() for _ in nodes)
        for name, count in sorted(absent.items()):
            self._notes.append(
                f"NodePool {name}: it is not in the input, so {counted(count, 'node', ('is', 'are'))} in no node group"
            )
        self._notes.extend(launch_notes(self._given.claims))
        ended = [_name(pool) for pool in pools if _is_bounded_in_time(pool)]
        if ended:
            self._notes.append(
                f"NodePool {_few(ended)}: expireAfter and terminationGracePeriod are left out of the plan: "
                "Karpenter replaces nodes for their age in any case"
            )


def _members(objects: KarpenterObjects) -> dict[tuple[str, OfferKey, frozenset[tuple[str, str]]], list[str]]:
    """Return the names of the nodes of each pool, offering and combination of the pool's own labels."""
    membership = Membership(objects.declared)
    own = {_name(pool): _own_keys(pool) for pool in objects.pools}
    found: dict[tuple[str, OfferKey, frozenset[tuple[str, str]]], list[str]] = defaultdict(list)
    for node in objects.nodes:
        labels, name = (node.metadata and node.metadata.labels) or {}, _name(node)
        pool = labels.get(POOL)
        if pool and not (objects.declared and membership.groups_of(name, node)):
            variant = frozenset((key, labels[key]) for key in own.get(pool, ()) if key in labels)
            found[pool, key_of(labels), variant].append(name)
    return dict(found)


def _own_keys(pool: NodePool) -> list[str]:
    """Return the keys of a pool's own labels for which its requirements allow several values or one."""
    requirements = (pool.spec and pool.spec.template and pool.spec.template.spec) or ClaimTemplateSpec()
    keys = {one.key for one in requirements.requirements or () if one.operator == "In" and one.key}
    return sorted(key for key in keys if not is_of_machines(key))


def _claims_without_node(objects: KarpenterObjects) -> dict[tuple[str, OfferKey], int]:
    """Return how many NodeClaims of each pool and offering are launched and have no node yet."""
    nodes = {_name(node) for node in objects.nodes}
    found: Counter[tuple[str, OfferKey]] = Counter()
    for claim in objects.claims:
        labels = (claim.metadata and claim.metadata.labels) or {}
        node = claim.status.node_name if claim.status is not None else None
        is_leaving = claim.metadata is not None and claim.metadata.deletion_timestamp is not None
        failed = _launch_condition(claim)
        is_leaving |= failed is not None and failed.status == "False"
        if POOL in labels and CAPACITY_TYPE in labels and node not in nodes and not is_leaving:
            found[labels[POOL], key_of(labels)] += 1
    return found


def _launch_condition(claim: NodeClaim) -> ObjectCondition | None:
    """Return the condition of a launch that failed; None = it has not."""
    conditions = (claim.status.conditions if claim.status is not None else None) or ()
    launched = next((condition for condition in conditions if condition.type == "Launched"), None)
    has_failed = launched is not None and launched.status != "True" and launched.reason not in _NOT_YET
    return launched if has_failed else None


def launch_notes(claims: Iterable[NodeClaim]) -> Iterator[str]:
    """Yield a note for each NodeClaim whose launch failed."""
    for claim in claims:
        failed = _launch_condition(claim)
        if failed is not None:
            is_over = failed.status == "False"
            why = ": ".join(filter(None, (failed.reason, failed.message)))
            yield (
                f"NodeClaim {_name(claim)}: its launch failed ({why or 'no reason is given'}); its node is "
                + ("not awaited" if is_over else "awaited until Karpenter deletes the claim")
            )


def nodes_of_deleted_claims(claims: Iterable[NodeClaim]) -> set[str]:
    """Return the names of the nodes whose NodeClaims are being deleted."""
    return {
        claim.status.node_name
        for claim in claims
        if claim.status is not None
        and claim.status.node_name
        and claim.metadata is not None
        and claim.metadata.deletion_timestamp is not None
    }


def _zones(pools: Iterable[NodePool]) -> set[str]:
    """Return the zones that pools name."""
    requirements = [
        one
        for pool in pools
        if pool.spec and pool.spec.template and pool.spec.template.spec
        for one in pool.spec.template.spec.requirements or ()
    ]
    return {value for one in requirements if one.key == ZONE and one.operator == "In" for value in one.values or ()}


def _check_taints(taints: Iterable[Taint]) -> None:
    for place, taint in enumerate(taints):
        with below(f"spec.template.spec.taints[{place}]"):
            if not taint.key:
                raise FieldError("key", "it is missing", "name the taint")
            if taint.effect not in _EFFECTS:
                raise FieldError("effect", f"{taint.effect!r} is unknown", f"use one of {', '.join(_EFFECTS)}")


def _is_bounded_in_time(pool: NodePool) -> bool:
    spec = (pool.spec and pool.spec.template and pool.spec.template.spec) or ClaimTemplateSpec()
    disruption = (pool.spec and pool.spec.disruption) or PoolDisruption()
    expires = spec.expire_after or disruption.expire_after
    return expires not in (None, "Never") or spec.termination_grace_period is not None


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def _name(obj: Any) -> str:
    return (obj.metadata and obj.metadata.name) or ""
