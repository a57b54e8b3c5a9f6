"""Proof that a scale-up decision treats gangs as wholes, from only the snapshot and the answer.

A plan never has places for some pods of a gang while fewer than its minimum would run; the places of a gang are in one
domain of its topology key; pods that the scheduler holds have none, nor has a group whose pods name several schedulers,
or a group with a priority of which a pod has another one, or scheduling gates (kube-scheduler 1.37). Shares no code
with the planner.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from trimtab.places import costs_of, on_existing, on_new_nodes, on_upcoming
from trimtab.v1 import plan_pb2, reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

Reason = reason_pb2.GangReason
HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SCHEDULER = "default-scheduler"
GATED = 8
"""Flag of pods with scheduling gates."""


@dataclass
class Gang:
    """A pod group: its row, None if it has none; pods by name: "" = on no node."""

    key: str
    row: pb.PodGroup | None
    pods: dict[str, str] = field(default_factory=dict)
    priorities: set[int] = field(default_factory=set)
    schedulers: set[str] = field(default_factory=set)
    pending_schedulers: set[str] = field(default_factory=set)
    has_gates: bool = False

    @property
    def least(self) -> int:
        """Fewest pods that must run."""
        if self.row is None or self.row.problem:
            return 0
        return self.row.min_count if self.row.policy == pb.PodGroupPolicy.GANG else 1

    @property
    def pending(self) -> set[str]:
        return {name for name, node in self.pods.items() if not node}

    @property
    def held(self) -> bool:
        """Whether the scheduler holds its pods."""
        return self.row is None or bool(self.row.problem) or len(self.pods) < self.least or self.is_mixed

    @property
    def is_mixed(self) -> bool:
        """Whether its pods name several schedulers, or the group has a priority, and a pod another one or gates."""
        if self.row is None or not self.row.HasField("priority"):
            return len(self.pending_schedulers) > 1
        return self.has_gates or self.priorities != {self.row.priority} or len(self.schedulers) > 1


def gangs_in(message: pb.ClusterSnapshot) -> dict[str, Gang]:
    """Return the groups of a snapshot that have pods, by "namespace/name"."""
    table, rows = message.pods, {f"{one.namespace}/{one.name}": one for one in message.pod_groups}
    if not table.pod_group:
        return {}
    columns = (table.pod_group, table.namespace, table.node, table.spec)
    groups, spaces, nodes, specs = (_int32(column) for column in columns)
    deletion = [one for (one,) in struct.iter_unpack("<q", table.deletion)] or [0] * table.count
    found: dict[str, Gang] = {}
    offset = 0
    for i, length in enumerate(_int32(table.name_lengths)):
        name = table.names[offset : offset + length].decode()
        offset += length
        if not groups[i] or deletion[i] or table.phase[i] in (pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED):
            continue
        if not message.strings[groups[i]]:
            continue
        space = message.strings[spaces[i]]
        key = f"{space}/{message.strings[groups[i]]}"
        gang = found.setdefault(key, Gang(key, rows.get(key)))
        gang.pods[f"{space}/{name}"] = message.strings[nodes[i]]
        gang.priorities.add(message.pod_specs[specs[i]].priority)
        scheduler = message.strings[message.pod_specs[specs[i]].scheduler_name] or DEFAULT_SCHEDULER
        gang.schedulers.add(scheduler)
        if not nodes[i]:
            gang.pending_schedulers.add(scheduler)
        gang.has_gates |= not nodes[i] and bool(table.flags and table.flags[i] & GATED)
    return found


def _int32(column: bytes) -> list[int]:
    return [one for (one,) in struct.iter_unpack("<i", column)]


def offences(message: pb.ClusterSnapshot, decision: plan_pb2.ScaleUpDecision) -> list[str]:
    """Return every violation of a decision."""
    return [problem for gang in gangs_in(message).values() for problem in _of_gang(message, decision, gang)]


def _of_gang(message: pb.ClusterSnapshot, decision: plan_pb2.ScaleUpDecision, gang: Gang) -> Iterator[str]:
    new = {pod: group for group, pods in on_new_nodes(decision).items() for pod in pods}
    placed = gang.pending & {*decision.places.pods}
    bound = len(gang.pods) - len(gang.pending)
    if gang.held and placed:
        yield f"{gang.key}: {sorted(placed)} have places, but the scheduler holds them"
    if placed and bound + len(placed) < gang.least:
        yield f"{gang.key}: {bound} + {len(placed)} pods would run, {gang.least} must"
    if placed and gang.row is not None and gang.row.topology_key:
        yield from _domains(message, decision, gang, new)
    lonely = gang.row is not None and not gang.held and gang.least == 1 and not gang.row.topology_key
    told = {one.group: one for one in decision.gangs}
    if gang.pending and gang.key not in told and not (lonely and gang.row.policy == pb.PodGroupPolicy.BASIC):  # type: ignore[union-attr]
        yield f"{gang.key} is not reported"
    if gang.key in told:
        yield from _told(told[gang.key], decision, gang, placed, new)


def _told(
    row: plan_pb2.GangResult, decision: plan_pb2.ScaleUpDecision, gang: Gang, placed: set[str], new: dict[str, str]
) -> Iterator[str]:
    """Check what is said of a gang."""
    bound = len(gang.pods) - len(gang.pending)
    right = (gang.least, len(gang.pods), bound, len(placed), len(placed & new.keys()))
    said = (row.min_count, row.existing_count, row.bound_count, row.placed_count, row.on_new_nodes_count)
    if said != right:
        yield f"{gang.key}: said {said}, is {right}"
    is_whole = bound + len(placed) >= gang.least and not gang.held
    if is_whole == bool(row.reason) and not (bound >= gang.least and not placed):
        yield f"{gang.key}: whole is {is_whole}, said {Reason.Code.Name(row.reason)}"
    if row.reason and not row.detail:
        yield f"{gang.key}: no sentence"
    skipped = {one.pod for one in decision.skipped}
    for pod in sorted(gang.pending - placed - skipped - {pod for one in decision.unschedulable for pod in one.pods}):
        yield f"{gang.key}: {pod} is in no list"
    needs_new = bound + len(placed - new.keys()) < gang.least
    if needs_new and not placed - new.keys() <= {*decision.after_new_nodes}:
        yield f"{gang.key}: pods on existing nodes are bound only with those on new ones, which is not said"


def _domains(
    message: pb.ClusterSnapshot, decision: plan_pb2.ScaleUpDecision, gang: Gang, new: dict[str, str]
) -> Iterator[str]:
    """Check that all pods of a gang are in one domain."""
    assert gang.row is not None
    key = message.strings[gang.row.topology_key]
    of_node = {node.name: _labels(message, node.label_set).get(key, "") for node in message.nodes}
    of_group = {group.id: _labels(message, group.template.label_set).get(key, "") for group in message.node_groups}
    values = {of_node.get(node, "") for node in gang.pods.values() if node}
    existing, group_of = on_existing(decision), on_upcoming(decision) | new
    values |= {of_node.get(existing[pod], "") for pod in gang.pending & {*existing}}
    for pod in gang.pending & {*group_of}:
        group = group_of[pod]
        values.add("" if key == HOSTNAME else of_group[group])
    if len(values) != 1 or "" in values:
        yield f"{gang.key}: its pods are in the domains {sorted(values)} of {key}"
    told = [one.domain for one in decision.gangs if one.group == gang.key]
    if told and told != sorted(values):
        yield f"{gang.key}: said to be in {told}, is in {sorted(values)}"


def _labels(message: pb.ClusterSnapshot, label_set: int) -> dict[str, str]:
    offsets, keys, values = (
        _int32(column) for column in (message.label_sets.offsets, message.label_sets.keys, message.label_sets.values)
    )
    if not offsets:
        return {}
    entries = range(offsets[label_set], offsets[label_set + 1])
    return {message.strings[keys[at]]: message.strings[values[at]] for at in entries}


def torn_apart(message: pb.ClusterSnapshot, now: set[str]) -> Iterator[str]:
    """Check that a gang is drained only as far as its minimum runs, or whole: with the one node that has all of it or,
    if it is disrupted as a whole, with all its nodes.

    now : the nodes of one wave, or those that go now.
    """
    for gang in gangs_in(message).values():
        on = [node for node in gang.pods.values() if node]
        leaves = [node for node in on if node in now]
        if gang.least == 0 or gang.row is None or not leaves or not _counts(gang.row):
            continue
        bound = message.strings[gang.row.topology_key] if gang.row.topology_key else ""
        if len(set(on)) == 1 and not bound:
            continue
        is_whole = gang.row.disruption_mode == pb.PodGroupDisruptionMode.POD_GROUP
        if is_whole and not bound and len(leaves) == len(on) >= gang.least:
            continue
        if bound or is_whole:
            yield f"{gang.key}: {len(leaves)} of its pods leave, and it is not moved whole"
        elif len(on) - len(leaves) < gang.least:
            yield f"{gang.key}: {len(on) - len(leaves)} of its pods stay, {gang.least} must run"


def marked_wrongly(message: pb.ClusterSnapshot, decision: plan_pb2.ScaleDownDecision) -> Iterator[str]:
    """Check that the nodes of a gang that moves whole from several nodes are marked with it, and that no other is."""
    marked = {entry.node: entry.gang for entry in decision.unneeded if entry.gang}
    moved = set(decision.places.pods)
    right: dict[str, str] = {}
    for gang in gangs_in(message).values():
        on = {node for node in gang.pods.values() if node}
        is_whole = gang.row is not None and gang.row.disruption_mode == pb.PodGroupDisruptionMode.POD_GROUP
        if gang.least and is_whole and len(on) > 1 and moved & (gang.pods.keys() - gang.pending):
            right |= dict.fromkeys(on, gang.key)
    if marked != right:
        yield f"nodes are marked with the gangs {marked}, right is {right}"
    costs = {(entry.gang, entry.eviction_cost) for entry in decision.unneeded if entry.gang}
    if len(costs) > len({gang for gang, _ in costs}):
        yield f"the nodes of a gang have different costs: {sorted(costs)}"


def _counts(row: pb.PodGroup) -> bool:
    """Return whether a group is more than its pods."""
    return row.policy == pb.PodGroupPolicy.GANG or bool(row.topology_key)


def torn_by_costs(message: pb.ClusterSnapshot, decision: plan_pb2.PodCostsDecision) -> Iterator[str]:
    """Check that pods which running gangs need go last, gang by gang, and that no other pod goes as late.

    A gang needs its minimum, or all its pods if it is disrupted as a whole.
    """
    ranked = [group for group in decision.groups if group.complete]
    costs = {(group.target, pod): cost for group in ranked for pod, cost in costs_of(group).items()}
    gang_of = {pod: gang for gang in gangs_in(message).values() for pod in gang.pods}
    for gang in gangs_in(message).values():
        found = {(target, cost) for (target, pod), cost in costs.items() if cost > 0 and gang_of.get(pod) is gang}
        if len({target for target, _ in found}) < len(found):
            yield f"{gang.key}: its pods have the costs {sorted(found)}"
        yield from _spared(gang, {pod: cost for (_, pod), cost in costs.items() if pod in gang.pods})
    for group in ranked:
        last = [gang_of[pod].key if pod in gang_of else "" for pod, cost in costs_of(group).items() if cost > 0]
        runs = [key for at, key in enumerate(last) if at == 0 or last[at - 1] != key]
        if len(runs) > len(set(runs)) or "" in runs:
            yield f"{group.owner}: the last pods are of the gangs {runs}"
        if [*group.costs] != sorted(group.costs):
            yield f"{group.owner}: pods are not in the order of their costs"


def _spared(gang: Gang, costs: dict[str, int]) -> Iterator[str]:
    """Check how many pods of a gang may go before the last ones."""
    bound = len(gang.pods) - len(gang.pending)
    is_gang = gang.row is not None and not gang.row.problem and gang.row.policy == pb.PodGroupPolicy.GANG
    is_running = is_gang and bound >= gang.least
    if is_running and gang.row is not None and gang.row.disruption_mode == pb.PodGroupDisruptionMode.POD_GROUP:
        least = bound
    else:
        least = gang.least if is_running else 0
    on_nodes = gang.pods.keys() - gang.pending
    early = sum(costs[pod] <= 0 for pod in costs.keys() & on_nodes)
    if early > bound - least:
        yield f"{gang.key}: {early} of its {bound} pods may go before others, {least} must run"
    if any(costs[pod] > 0 for pod in costs.keys() & gang.pending):
        yield f"{gang.key}: a pod on no node is said to be needed"
    if costs.keys() >= on_nodes and bound - early > least:
        yield f"{gang.key}: {bound - early} of its pods go last, {least} must run"
