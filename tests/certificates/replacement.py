"""Proof that a plan of replacement can be carried out wave by wave, from the messages only, without planner code.

After each wave, every pod has a place that the scheduler would choose, with all other pods in place; disruption budgets
allow the evictions of the wave all together; node groups keep their minimum and maximum sizes, while new and old nodes
exist at the same time; and the cluster costs as much less as said.
"""

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Iterator

from tests.builders.money import money_of
from tests.certificates.cluster import Cluster, Pod
from tests.certificates.disruption import (
    allowed_healthy,
    blocks,
    budgets_of,
    disrupts,
    goes_with_its_node,
    overdrawn,
    waits_for_completion,
)
from tests.certificates.new_nodes import new_node_of
from tests.certificates.scale_down import selects
from tests.certificates.scheduling import PREDICATES, Placement
from trimtab.clients.verdicts import not_replaced
from trimtab.places import destinations, moves_by_node
from trimtab.v1 import plan_pb2, reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

Result = reason_pb2.ReplacementResult
CLOSE = 1e-6


class Plan:
    """A decision and its inputs. nodes, node_of : the cluster as the waves so far leave it."""

    def __init__(
        self,
        snapshot: pb.ClusterSnapshot,
        settings: plan_pb2.PlanSettings,
        answer: plan_pb2.PlanResponse,
        now_s: int,
    ) -> None:
        self.cluster = Cluster(snapshot)
        self.settings, self.decision, self.now_s = settings, answer.replacement, now_s
        self.answer = answer
        cutoff = settings.planner.expendable_pods_priority_cutoff
        self.cutoff = cutoff if settings.planner.HasField("expendable_pods_priority_cutoff") else -10
        self.leaving = self.cluster.leaving(now_s)
        self.known = set(self.cluster.nodes)
        self.group_of = {name: row.node_group for name, row in self.cluster.nodes.items()}
        self.pods = dict(self.cluster.pods)
        self.nodes = self.known - self.leaving
        self.node_of = {
            key: pod.node
            for key, pod in self.pods.items()
            if pod.node in self.nodes and not pod.ended and pod.spec.priority >= self.cutoff
        }
        self.kept = tuple(not_replaced(answer))
        self.protected = self._protected()
        self.size = {key: group.target_size for key, group in self.cluster.groups.items()}

    def _protected(self) -> set[str]:
        """Return the nodes with a pod that is not to be disrupted now."""
        table, found = self.cluster.message.pods, set[str]()
        keys = list(self.cluster.pods)
        for (row,), (key,), (until_s,) in zip(
            struct.iter_unpack("<i", table.number_pod),
            struct.iter_unpack("<i", table.number_key),
            struct.iter_unpack("<d", table.number),
            strict=True,
        ):
            pod = self.cluster.pods[keys[row]]
            is_active = not pod.ended and not pod.deletion_s and not until_s <= self.now_s
            if is_active and self.cluster.strings[key] == "karpenter.sh/do-not-disrupt":
                found.add(pod.node)
        return found

    def price(self, group: str) -> float:
        row = self.cluster.groups[group]
        return row.price_per_hour if row.HasField("price_per_hour") else math.nan

    def to_move(self, node: str) -> list[Pod]:
        """Return the pods that need a place when a node goes."""
        return [
            pod
            for pod in self.pods.values()
            if pod.node == node and not pod.ended and not goes_with_its_node(pod, self.now_s, self.cutoff)
        ]

    def join(self, node: plan_pb2.ReplacementNode) -> None:
        """Add a new node, with its DaemonSet pods."""
        template = new_node_of(self.cluster, self.cluster.groups[node.node_group], self.settings.scale_up, self.now_s)
        assert template is not None, f"{node.node_group} has no template"
        for pod in template.join(self.cluster, node.name):
            self.pods[pod.key] = pod
            self.node_of[pod.key] = node.name
        self.nodes.add(node.name)
        self.group_of[node.name] = node.node_group


def offences(
    snapshot: pb.ClusterSnapshot,
    settings: plan_pb2.PlanSettings,
    answer: plan_pb2.PlanResponse,
    now_s: int,
) -> list[str]:
    """Return every violation of a decision that was taken alone."""
    plan, decision = Plan(snapshot, settings, answer, now_s), answer.replacement
    found = list(_whole(plan))
    for number, wave in enumerate(decision.waves, start=1):
        found += [f"wave {number}: {one}" for one in _wave(plan, number, wave)]
    return found + list(_money(plan))


def _whole(plan: Plan) -> Iterator[str]:
    """Check the result, the limits of the settings, and that each node is listed once."""
    decision, given = plan.decision, plan.settings.replacement
    if (decision.result == Result.REPLACEMENT_PLANNED) != bool(decision.waves):
        yield f"result {decision.result} with {len(decision.waves)} waves"
    if len(decision.waves) > (given.max_waves or 10):
        yield f"{len(decision.waves)} waves"
    leaving = [one.node for wave in decision.waves for one in wave.leaving]
    listed = Counter([*leaving, *(one.node for one in plan.kept)])
    yield from (f"{name} is listed {count} times" for name, count in sorted(listed.items()) if count > 1)
    if decision.result in {Result.REPLACEMENT_PLANNED, Result.REPLACEMENT_NOTHING_PAYS}:
        priced = {n for n in plan.nodes if plan.group_of[n] and not math.isnan(plan.price(plan.group_of[n]))}
        yield from (f"{name} is neither replaced nor kept" for name in sorted(priced - set(listed)))
    yield from (f"{one.node} is kept without reason" for one in plan.kept if not one.not_replaced.reason)
    yield from (f"{one.node} may save less than 0" for one in plan.kept if one.not_replaced.saving_per_hour < 0)
    if sum(one.chosen for one in decision.frontier) != bool(decision.waves):
        yield "not exactly one option is chosen"
    savings = [one.saving_per_hour for one in decision.frontier]
    if savings != sorted(savings):
        yield f"the frontier does not rise: {savings}"


def _wave(plan: Plan, number: int, wave: plan_pb2.ReplacementWave) -> Iterator[str]:
    """Check one wave, and carry it out."""
    given, added = plan.settings.replacement, Counter(one.node_group for one in wave.new_nodes)
    gone = {one.node for one in wave.leaving}
    if len(gone) > (given.max_leaving_nodes or 10) or len(wave.new_nodes) > (given.max_surge_nodes or 10):
        yield f"{len(gone)} nodes leave and {len(wave.new_nodes)} come"
    for name in [*gone, *(one.node for one in plan.kept if one.node in gone)]:
        row = plan.cluster.nodes[name]
        if name not in plan.known & plan.nodes or row.scale_down_disabled or not row.node_group:
            yield f"{name} may not leave"
        honoured = not given.HasField("do_not_disrupt") or given.do_not_disrupt
        if honoured and (row.do_not_disrupt or name in plan.protected):
            yield f"{name} is not to be disrupted"
    for group, count in sorted(added.items()):
        plan.size[group] += count
        if plan.size[group] > plan.cluster.groups[group].max_size:
            yield f"{group} has {plan.size[group]} nodes during the surge"
    for new in wave.new_nodes:
        if new.name in plan.known or new.price_per_hour != plan.price(new.node_group):
            yield f"{new.name} costs {new.price_per_hour}"
        plan.join(new)
    yield from _moves(plan, wave)
    yield from _disruptions(plan, number, gone)
    yield from _node_budgets(plan, gone)
    plan.node_of.update(destinations(wave.places))
    plan.nodes -= gone
    plan.node_of = {key: node for key, node in plan.node_of.items() if node in plan.nodes}
    for name in gone:
        plan.size[plan.group_of[name]] -= 1
    yield from (
        f"{key} has {size} nodes left"
        for key, size in sorted(plan.size.items())
        if size < plan.cluster.groups[key].min_size and any(plan.group_of[name] == key for name in gone)
    )
    yield from _places(plan, wave)


def _moves(plan: Plan, wave: plan_pb2.ReplacementWave) -> Iterator[str]:
    """Check that exactly the pods that need a place have one, that none blocks, and what the plan assumes."""
    moves = moves_by_node(wave.places)
    if not moves.keys() <= {entry.node for entry in wave.leaving}:
        yield f"pods leave {sorted(moves)}, of which not all go"
    for entry in wave.leaving:
        pods, moved = plan.to_move(entry.node), set(moves.get(entry.node, ()))
        if {pod.key for pod in pods} != moved:
            yield f"{entry.node}: moves {sorted(moved)[:5]}, not {sorted(pod.key for pod in pods)[:5]}"
        for pod in pods:
            if waits_for_completion(pod) and pod.spec.safe_to_evict != pb.SafeToEvict.TRUE:
                yield f"{pod.key} has to complete first"
            if why := blocks(plan.cluster, pod, plan.settings.scale_down, plan.now_s):
                yield f"{pod.key} blocks: {why}"
        digest = hashlib.sha256("".join(uid + "\n" for uid in sorted(pod.uid for pod in pods)).encode()).hexdigest()
        if (entry.assumption.pods_to_move_count, entry.assumption.pods_to_move_digest) != (len(pods), digest[:16]):
            yield f"{entry.node}: assumes other pods than it has"
        # A pod is evicted once: its node has received none that the plan moves.
        received = [key for key, node in plan.node_of.items() if node == entry.node and plan.pods[key].node != node]
        yield from (f"{key} would be evicted twice" for key in received)


def _disruptions(plan: Plan, number: int, gone: set[str]) -> Iterator[str]:
    """Check the disruption budgets over all evictions of the wave."""
    pods = [pod for name in sorted(gone) for pod in plan.to_move(name)]
    if number > 1:
        yield from _overdrawn_in_turn(plan.cluster, pods)
        return
    first = [pod for name in sorted(plan.leaving) for pod in plan.to_move(name)]
    yield from overdrawn(plan.cluster, first, pods, in_turn=True)


def _overdrawn_in_turn(cluster: Cluster, pods: list[Pod]) -> Iterator[str]:
    """Yield the budgets that the pods exceed although all are healthy, and one node's may be evicted in turn."""
    for budget in cluster.message.pod_disruption_budgets:
        used = Counter(pod.node for pod in pods if budget in budgets_of(cluster, pod) and disrupts(budget, pod))
        others = used.total() - max(used.values(), default=0)
        if used.total() > allowed_healthy(budget) and others > allowed_healthy(budget) - 1:
            yield f"budget {budget.namespace}/{budget.name}: {used} of {allowed_healthy(budget)} in a wave"


def _node_budgets(plan: Plan, gone: set[str]) -> Iterator[str]:
    """Check the budgets for nodes that always hold and count all reasons."""
    for budget in plan.settings.planner.disruption_budgets:
        if budget.schedule or budget.reasons:
            continue
        counted = {
            name
            for name in plan.known
            if (not budget.node_groups or plan.group_of[name] in budget.node_groups)
            and selects(budget.nodes, plan.cluster.node_labels(name))
        }
        text = budget.max_nodes
        most = math.ceil(int(text[:-1]) * len(counted) / 100) if text.endswith("%") else int(text)
        if len(counted & gone) > most:
            yield f"{len(counted & gone)} nodes leave, a budget allows {most}"


def _places(plan: Plan, wave: plan_pb2.ReplacementWave) -> Iterator[str]:
    """Check that the scheduler could place every moved pod on its node, with all others in place."""
    running = {key: node for key, node in plan.node_of.items() if key in plan.cluster.pods}
    placement = Placement(plan.cluster, set(plan.nodes), running)
    moves = moves_by_node(wave.places)
    for entry in wave.leaving:
        for key, target in sorted(moves.get(entry.node, {}).items()):
            if target not in plan.nodes:
                yield f"{key} goes to {target}, which does not stay"
                continue
            pod = plan.pods[key]
            placement.on[target] = [other for other in placement.on[target] if other is not pod]
            placement.repelling = [one for one in placement.repelling if one[1] is not pod]
            for predicate in PREDICATES:
                if problem := predicate(placement, pod, target):
                    yield f"{key} on {target}: {problem} ({predicate.__name__})"
            placement.put(pod, target)


def _money(plan: Plan) -> Iterator[str]:
    """Check that the cluster costs as much as said, before and after."""
    decision = plan.decision
    if decision.result in {Result.REPLACEMENT_NO_PRICES, Result.REPLACEMENT_NOT_TRIED}:
        return
    groups = [plan.group_of[name] for name in plan.known - plan.leaving if plan.group_of[name]]
    now = sum(price for group in groups if not math.isnan(price := plan.price(group)))
    saved = 0.0
    for wave in decision.waves:
        gone = sum(plan.price(plan.group_of[one.node]) for one in wave.leaving)
        saving = gone - sum(plan.price(one.node_group) for one in wave.new_nodes)
        saved += saving
        if abs(saving - wave.saving_per_hour) > CLOSE or saving <= 0:
            yield f"a wave saves {saving}, not {wave.saving_per_hour}"
    cost = money_of(plan.answer)
    for name, said, is_so in (("now", cost.now_per_hour, now), ("after", cost.after_per_hour, now - saved)):
        if abs(said - is_so) > CLOSE * max(1.0, now):
            yield f"{name}: {said}, not {is_so}"
    if cost.bound_per_hour > cost.after_per_hour + CLOSE * max(1.0, now):
        yield f"the bound {cost.bound_per_hour} is above what the plan costs, {cost.after_per_hour}"
