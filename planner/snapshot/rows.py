"""The small tables as values: node groups, owners, budgets, namespaces, the actuator's status; and selectors.

Decides their canonical order (by id, uid, (namespace, name), name); values of selectors are sorted and without
duplicates. Indices of label sets and specs keep the message's numbers; they are renumbered later. Raises SnapshotError.
Source: `protos/trimtab/v1/snapshot.proto`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from trimtab.planner.model.values import (
    DeletionInProgress,
    DisruptionBudget,
    LabelRequirement,
    NodeAffinityTerm,
    NodeGroupInfo,
    Owner,
    RecentEviction,
    Selector,
    TemplatePod,
)
from trimtab.planner.snapshot.checks import Row, check_unique
from trimtab.planner.snapshot.columns import Int32
from trimtab.v1 import snapshot_pb2 as pb

_HEALTH: Final = frozenset(pb.NodeGroupHealth.Code.values())
UNKNOWN_COUNT: Final = -1
UNKNOWN_SPEC: Final = -1
DAEMON_SET: Final = "DaemonSet"
_SETS: Final = frozenset({pb.LabelOperator.IN, pb.LabelOperator.NOT_IN})
_PRESENCE: Final = frozenset({pb.LabelOperator.EXISTS, pb.LabelOperator.DOES_NOT_EXIST})
_NUMBERS: Final = frozenset({pb.LabelOperator.GT, pb.LabelOperator.LT})
ON_PODS: Final = _SETS | _PRESENCE
ON_NODES: Final = _SETS | _PRESENCE | _NUMBERS


def read_selector(row: Row, message: pb.LabelSelector, field: str) -> Selector:
    """Return a label selector; () matches everything. The caller turns absence into None."""
    return read_requirements(row, message.requirements, f"{field}.requirements", ON_PODS)


def read_terms(row: Row, message: pb.NodeSelector, field: str) -> tuple[NodeAffinityTerm, ...]:
    """Return the alternatives of required node affinity."""
    return tuple(
        NodeAffinityTerm(
            read_requirements(row, term.match_expressions, f"{field}.terms.match_expressions", ON_NODES),
            read_requirements(row, term.match_fields, f"{field}.terms.match_fields", ON_NODES),
        )
        for term in message.terms
    )


def read_requirements(
    row: Row, messages: Iterable[pb.LabelRequirement], field: str, operators: frozenset[int]
) -> Selector:
    """Return requirements in their order."""
    return tuple(_requirement(row, message, field, operators) for message in messages)


def _requirement(row: Row, message: pb.LabelRequirement, field: str, operators: frozenset[int]) -> LabelRequirement:
    operator = row.code(message.operator, operators, f"{field}.operator")
    values = tuple(sorted({row.text(value, f"{field}.values") for value in message.values}))
    if operator in _SETS and not values:
        row.refuse(f"{field}.values", "there is none; IN and NOT_IN need at least one")
    if operator in _PRESENCE and values:
        row.refuse(f"{field}.values", "there are some; EXISTS and DOES_NOT_EXIST take none")
    if operator in _NUMBERS and len(message.values) != 1:
        row.refuse(f"{field}.values", f"there are {len(message.values)}; GT and LT take exactly one")
    return LabelRequirement(row.needed_text(message.key, f"{field}.key"), operator, values)


class DictionarySizes(NamedTuple):
    """Number of rows in the dictionaries `label_sets` and `specs` of the message."""

    label_sets: int
    specs: int


def read_node_groups(messages: Sequence[pb.NodeGroup], strings: Sequence[str]) -> list[tuple[NodeGroupInfo, int]]:
    """Return (group, row) sorted by id. `template` is the rank among the groups that have one, or -1."""
    check_unique([m.id for m in messages], "node_groups", "id")
    row = Row("node_groups", strings)
    groups = []
    template = 0
    for row.index in sorted(range(len(messages)), key=lambda i: messages[i].id):
        m = messages[row.index]
        has_template = m.HasField("template")
        group = NodeGroupInfo(
            row.needed(m.id, "id"),
            row.at_least(m.min_size, 0, "min_size"),
            row.at_least(m.max_size, m.min_size, "max_size"),
            row.at_least(m.target_size, 0, "target_size"),
            template if has_template else -1,
            row.price(m.price_per_hour) if m.HasField("price_per_hour") else math.nan,
            row.code(m.health, _HEALTH, "health"),
            row.time_ns(m, "backoff_until"),
            m.zero_or_max,
            row.time_ns(m, "last_scale_up_time"),
            row.time_ns(m, "last_deletion_time"),
            row.time_ns(m, "last_failure_time"),
        )
        template += has_template
        groups.append((group, row.index))
    return groups


def read_daemonset_pods(
    messages: Sequence[pb.NodeGroup], index: int, sizes: DictionarySizes
) -> list[tuple[str, int, int]]:
    """Return (namespace, spec, label set), as the message numbers them, of the pods in the template of a group."""
    row = Row("node_groups", ())
    row.index = index
    return [
        read_template_pod(row, m, "template.daemonset_pods", sizes) for m in messages[index].template.daemonset_pods
    ]


def read_template_pod(row: Row, m: pb.TemplatePod, field: str, sizes: DictionarySizes) -> tuple[str, int, int]:
    """Return (namespace, spec, label set), as the message numbers them, of a pod in a field of a row."""
    return (
        row.name(m.namespace, f"{field}.namespace"),
        _index(row, m.spec, sizes.specs, f"{field}.spec"),
        _index(row, m.label_set, sizes.label_sets, f"{field}.label_set"),
    )


def read_requests(
    row: Row, messages: Sequence[pb.ResourceAmount], resources: Sequence[str], field: str = "requests"
) -> tuple[tuple[str, int], ...]:
    """Return amounts by resource name, sorted, without zero amounts. field : of the row."""
    requests: dict[str, int] = {}
    for message in messages:
        index = message.resource
        if not 0 <= index < len(resources):
            row.refuse(f"{field}.resource", f"{index} is not an index into resources; there are {len(resources)}")
        name = resources[index]
        if name in requests:
            row.refuse(f"{field}.resource", f"{name!r} is given twice; give each resource once")
        requests[name] = row.amount(message.amount, f"{field}.amount")
    return tuple(sorted([item for item in requests.items() if item[1]]))


def read_owners(
    messages: Sequence[pb.Owner],
    strings: Sequence[str],
    resources: Sequence[str],
    pod_of: Callable[[Row, pb.TemplatePod], TemplatePod],
) -> tuple[Owner, ...]:
    """Return owners sorted by uid. pod_of : reads the pod template of a DaemonSet."""
    row = Row("owners", strings)
    owners = []
    for m in row.over(messages):
        desired = m.desired_replicas if m.HasField("desired_replicas") else None
        current = m.current_replicas if m.HasField("current_replicas") else None
        owners.append(
            Owner(
                row.needed(m.uid, "uid"),
                row.needed(m.kind, "kind"),
                row.needed(m.name, "name"),
                m.namespace,
                UNKNOWN_COUNT if desired is None else row.at_least(desired, 0, "desired_replicas"),
                UNKNOWN_COUNT if current is None else row.at_least(current, 0, "current_replicas"),
                m.api_version,
                read_selector(row, m.selector, "selector") if m.HasField("selector") else None,
                m.controller,
                row.at_least(m.revision, 0, "revision"),
                pod_of(row, m.pod_template) if m.kind == DAEMON_SET and m.HasField("pod_template") else None,
                read_requests(row, m.pod_requests, resources, "pod_requests"),
            )
        )
    check_unique([owner.uid for owner in owners], "owners", "uid")
    owners.sort(key=lambda owner: owner.uid)
    return tuple(owners)


def read_budgets(messages: Sequence[pb.PodDisruptionBudget], strings: Sequence[str]) -> tuple[DisruptionBudget, ...]:
    """Return budgets sorted by (namespace, name)."""
    row = Row("pod_disruption_budgets", strings)
    budgets = [_budget(row, m) for m in row.over(messages)]
    check_unique([(budget.namespace, budget.name) for budget in budgets], "pod_disruption_budgets", "name")
    return tuple(sorted(budgets, key=lambda budget: (budget.namespace, budget.name)))


def _budget(row: Row, m: pb.PodDisruptionBudget) -> DisruptionBudget:
    status, has_status = m.status, m.HasField("status")
    return DisruptionBudget(
        row.name(m.namespace, "namespace"),
        row.name(m.name, "name"),
        read_selector(row, m.selector, "selector") if m.HasField("selector") else None,
        row.at_least(status.disruptions_allowed, 0, "status.disruptions_allowed") if has_status else UNKNOWN_COUNT,
        row.at_least(status.current_healthy, 0, "status.current_healthy"),
        row.at_least(status.desired_healthy, 0, "status.desired_healthy"),
        row.at_least(status.expected_pods, 0, "status.expected_pods"),
        status.observed and not status.sync_error,
        tuple(sorted(set(status.disrupted_pods))),
        m.always_allow_unhealthy,
        m.min_available,
        m.max_unavailable,
    )


def read_namespaces(messages: Sequence[pb.Namespace], sizes: DictionarySizes) -> list[tuple[str, int]]:
    """Return (name, label set as numbered by the message), sorted by name."""
    row = Row("namespaces", ())
    namespaces = [
        (row.name(m.name, "name"), _index(row, m.label_set, sizes.label_sets, "label_set")) for m in row.over(messages)
    ]
    check_unique([name for name, _ in namespaces], "namespaces", "name")
    return sorted(namespaces)


def read_deletions(messages: Sequence[pb.DeletionInProgress]) -> tuple[DeletionInProgress, ...]:
    """Return deletions sorted by node."""
    row = Row("actuation_status.deletions", ())
    deletions = [
        DeletionInProgress(row.needed(m.node, "node"), m.node_group, m.drain, row.time_ns(m, "start_time"))
        for m in row.over(messages)
    ]
    check_unique([deletion.node for deletion in deletions], row.table, "node")
    return tuple(sorted(deletions))


def read_evictions(messages: Sequence[pb.RecentEviction], sizes: DictionarySizes) -> list[RecentEviction]:
    """Return evictions sorted by (namespace, name, uid); spec and label set as the message numbers them."""
    row = Row("actuation_status.recent_evictions", ())
    evictions = []
    for m in row.over(messages):
        evictions.append(
            RecentEviction(
                row.name(m.namespace, "namespace"),
                row.name(m.name, "name"),
                row.needed(m.uid, "uid"),
                _index(row, m.spec, sizes.specs, "spec") if m.HasField("spec") else UNKNOWN_SPEC,
                _index(row, m.label_set, sizes.label_sets, "label_set"),
                m.owner,
                row.time_ns(m, "evict_time"),
            )
        )
    check_unique([row[:3] for row in evictions], row.table, "uid")
    return sorted(evictions, key=lambda row: row[:3])


def _index(row: Row, value: int, size: int, field: str) -> int:
    if not 0 <= value < size:
        row.refuse(field, f"{value} is not an index into its dictionary; there are {size} entries, counted from 0")
    return value


def spec_in(numbers: Int32, spec: int) -> int:
    """Return the number of a spec in another dictionary; an unknown spec stays unknown. numbers : int32[specs]."""
    return int(numbers[spec]) if spec >= 0 else spec
