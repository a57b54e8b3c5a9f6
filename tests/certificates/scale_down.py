"""Proof that a scale-down decision is valid, from only the request's snapshot and settings and the answer.

`offences` lists every violation; a valid plan has none. Shares no code with the planner.
"""

import copy
import hashlib
from collections.abc import Iterator, Mapping

from tests.certificates.cluster import Cluster, Pod
from tests.certificates.columns import broken_columns
from tests.certificates.disruption import blocks, goes_with_its_node, overdrawn, overdrawn_later, waits_for_completion
from tests.certificates.evenness import too_uneven
from tests.certificates.gangs import marked_wrongly, torn_apart
from tests.certificates.new_nodes import is_ready
from tests.certificates.scheduling import PREDICATES, Placement
from trimtab.places import moves_by_node
from trimtab.v1 import plan_pb2, reason_pb2, snapshot_pb2
from trimtab.v1.snapshot_pb2 import LabelOperator

Fate = plan_pb2.NodeFate
Reason = reason_pb2.UnremovableReason


class Plan:
    """A decision and its inputs."""

    def __init__(
        self,
        snapshot: snapshot_pb2.ClusterSnapshot,
        settings: plan_pb2.PlanSettings,
        answer: plan_pb2.PlanResponse,
        now_s: int,
    ) -> None:
        self.cluster = Cluster(snapshot)
        self.settings, self.general = settings.scale_down, settings.planner
        self.groups = settings.node_groups
        self.scale_up = settings.scale_up
        self.decision = answer.scale_down
        self.now_s = now_s
        self.unneeded = {entry.node: entry for entry in answer.scale_down.unneeded}
        self.verdicts = {one.node: one for one in answer.nodes}
        self.moves = moves_by_node(answer.scale_down.places)
        self.leaving = self.cluster.leaving(now_s)
        cutoff = self.general.expendable_pods_priority_cutoff
        self.cutoff = cutoff if self.general.HasField("expendable_pods_priority_cutoff") else -10

    def up_to(self, wave: int) -> "Plan":
        """Return the plan without the waves after one."""
        plan = copy.copy(self)
        plan.unneeded = {node: entry for node, entry in self.unneeded.items() if self.verdicts[node].wave <= wave}
        plan.moves = {node: pods for node, pods in self.moves.items() if node in plan.unneeded}
        return plan

    def ready(self, node: str) -> bool:
        """Return whether a node is ready: by its condition and its taints."""
        return is_ready(self.cluster, self.cluster.nodes[node], self.scale_up)

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.cluster.pods.values() if pod.node == node]

    def to_move(self, node: str) -> list[Pod]:
        """Return the pods of a node that need another place; pods that must complete first stay."""
        return [
            pod
            for pod in self.pods_on(node)
            if not goes_with_its_node(pod, self.now_s, self.cutoff)
            and not (waits_for_completion(pod) and pod.spec.safe_to_evict != snapshot_pb2.SafeToEvict.TRUE)
        ]

    def placement(self, without: str = "", ghosts: bool = False) -> Placement:
        """Return the cluster without the unneeded nodes, with all moved pods but one; `ghosts`: only cordoned."""
        node_of = {}
        for pod in self.cluster.pods.values():
            entry = self.unneeded.get(pod.node)
            if pod.ended or not pod.node or pod.key == without or pod.spec.priority < self.cutoff:
                continue
            node_of[pod.key] = self.moves.get(pod.node, {}).get(pod.key, "") if entry else pod.node
        closed = set(self.unneeded) | self.leaving
        if ghosts:
            return Placement(self.cluster, set(self.cluster.nodes), node_of, frozenset(closed))
        return Placement(self.cluster, set(self.cluster.nodes) - closed, node_of)

    def evicted(self) -> Placement:
        """Return the cluster with all pods to move evicted, and the nodes to remove cordoned but present."""
        closed = self.leaving | set(self.unneeded)
        gone = {pod.key for node in closed for pod in self.to_move(node)}
        pods = (pod for pod in self.cluster.pods.values() if pod.spec.priority >= self.cutoff)
        node_of = {pod.key: pod.node for pod in pods if pod.node and not pod.ended}
        rest = {key: node for key, node in node_of.items() if key not in gone}
        return Placement(self.cluster, set(self.cluster.nodes), rest, frozenset(closed))


def offences(
    snapshot: snapshot_pb2.ClusterSnapshot,
    settings: plan_pb2.PlanSettings,
    answer: plan_pb2.PlanResponse,
    now_s: int,
) -> list[str]:
    """Return every violation of a decision, and of what the answer says of nodes."""
    plan = Plan(snapshot, settings, answer, now_s)
    checks = (
        lists, eligible, moves, places, order, budgets, waves, minimums, resource_minimums, limits, timers, cooldowns,
        health, evenness, no_place, gangs,
    )  # fmt: skip
    return [f"{check.__name__}: {problem}" for check in checks for problem in check(plan)]


def lists(plan: Plan) -> Iterator[str]:
    """Check that every node has one verdict; lists are sorted, and agree with the verdicts; reasons are given."""
    decision, named = plan.decision, list(plan.verdicts)
    for node in sorted(plan.cluster.nodes.keys() ^ plan.verdicts.keys()):
        yield f"{node} has a verdict: {node in plan.verdicts}, is in the snapshot: {node in plan.cluster.nodes}"
    for rows in (named, [e.node for e in decision.unneeded], list(decision.delete_empty), list(decision.drain)):
        if rows != sorted(set(rows)):
            yield f"not sorted: {rows[:5]}"
    going = sorted([*decision.delete_empty, *decision.drain])
    now = [node for node, one in plan.verdicts.items() if one.fate == Fate.GOES_NOW]
    if going != now:
        yield f"goes now: {going[:5]}, marked so: {now[:5]}"
    later = [node for node, one in plan.verdicts.items() if one.fate == Fate.GOES_LATER]
    if sorted([*now, *later]) != sorted(plan.unneeded):
        yield f"unneeded: {sorted(plan.unneeded)[:5]}, marked so: {sorted([*now, *later])[:5]}"
    for node, one in plan.verdicts.items():
        if bool(one.reason) == (one.fate == Fate.GOES_NOW):
            yield f"{node} has the fate {one.fate} with the reason {one.reason}"
    started = decision.result == reason_pb2.ScaleDownResult.SCALE_DOWN_NODE_DELETE_STARTED
    if started != bool(going):
        yield f"result {decision.result} with {len(going)} nodes to go"


def eligible(plan: Plan) -> Iterator[str]:
    """Check that no unneeded node is being deleted, protected, or in no node group."""
    for node in plan.unneeded:
        row = plan.cluster.nodes[node]
        if node in plan.leaving or row.scale_down_disabled or row.do_not_disrupt or not row.node_group:
            yield f"{node} may not be taken"


def moves(plan: Plan) -> Iterator[str]:
    """Check that exactly the pods that need a place have one, none blocks, and the assumption matches them."""
    yield from broken_columns(plan.decision.places)
    if not plan.moves.keys() <= plan.unneeded.keys():
        yield f"pods leave {sorted(plan.moves)}, of which not all go"
    for node, entry in plan.unneeded.items():
        pods, moved = plan.to_move(node), set(plan.moves.get(node, ()))
        if {pod.key for pod in pods} != moved:
            yield f"{node}: moves {sorted(moved)[:5]}, must move {sorted(p.key for p in pods)[:5]}"
        for pod in pods:
            if why := blocks(plan.cluster, pod, plan.settings, plan.now_s):
                yield f"{node}: {pod.key} blocks, {why}"
        digest = hashlib.sha256("".join(uid + "\n" for uid in sorted(pod.uid for pod in pods)).encode())
        if entry.assumption.pods_to_move_count != len(pods):
            yield f"{node}: assumes {entry.assumption.pods_to_move_count} pods, has {len(pods)}"
        if entry.assumption.pods_to_move_digest != digest.hexdigest()[:16]:
            yield f"{node}: assumes other pods than it has"
        if node in plan.decision.delete_empty and pods:
            yield f"{node} is not empty"
        if node in plan.decision.drain and not pods:
            yield f"{node} has nothing to drain"


def places(plan: Plan) -> Iterator[str]:
    """Check that the scheduler could place every moved pod on its planned node, all at the same time."""
    placement = plan.placement()
    for node in plan.unneeded:
        for key, target in sorted(plan.moves.get(node, {}).items()):
            if target not in placement.nodes:
                yield f"{key} goes to {target}, which does not stay"
                continue
            if not plan.ready(target):
                yield f"{key} goes to {target}, which is not ready"
            for predicate in PREDICATES:
                if problem := predicate(placement, plan.cluster.pods[key], target):
                    yield f"{key} on {target}: {problem} ({predicate.__name__})"


def no_place(plan: Plan) -> Iterator[str]:
    """Check that a pod reported without a place has none once the plan is executed, before or after nodes are gone.

    With a detail it fits alone, but not together with the other pods of its node. Pods without a node may use room that
    is not in the plan, so nothing is checked if there are any.
    """
    pods = plan.cluster.pods.values()
    recent = plan.cluster.message.actuation_status.recent_evictions
    if recent or plan.leaving or any(not pod.node and not pod.ended for pod in pods):
        return
    alone = [e for e in plan.verdicts.values() if e.reason == Reason.NO_PLACE_TO_MOVE_PODS and not e.detail]
    for entry in alone:
        pod = plan.cluster.pods[entry.blocking_pod]
        ends = plan.placement(without=pod.key), plan.placement(without=pod.key, ghosts=True)
        for node in sorted(name for name in ends[0].nodes - {entry.node} if plan.ready(name)):
            if all(_admits(placement, pod, node) for placement in ends):
                yield f"{entry.node}: {entry.blocking_pod} could go to {node}"


def _admits(placement: Placement, pod: Pod, node: str) -> bool:
    """Return whether a node admits a pod that is on no node."""
    placement.put(pod, node)
    admits = not any(one(placement, pod, node) for one in PREDICATES)
    placement.take_off(pod, node)
    return admits


def order(plan: Plan) -> Iterator[str]:
    """Check that the scheduler can place all moved pods in some order, with all evicted and removed nodes closed."""
    target_of = {key: node for pods in plan.moves.values() for key, node in pods.items()}
    moved = [plan.cluster.pods[key] for key in sorted(target_of)]
    needy = [pod for pod in moved if pod.spec.pod_affinity or pod.spec.topology_spread]
    waits = {pod.key for pod in needy}
    stuck: list[str] = []
    # Pods that do not depend on others go first: placing them early cannot violate what holds in the end.
    for turn in (needy, needy[::-1]) if needy else ():
        placement = plan.evicted()
        for pod in moved:
            if pod.key not in waits and target_of[pod.key] in placement.nodes:
                placement.put(pod, target_of[pod.key])
        stuck = _stuck(placement, turn, target_of)
        if not stuck:
            return
    if stuck:
        yield f"in no order can {stuck[:5]} be placed where they go"


def _stuck(placement: Placement, pods: list[Pod], target_of: dict[str, str]) -> list[str]:
    """Place pods round by round, each once it fits; return those that never fit."""
    while pods:
        left = []
        for pod in pods:
            target = target_of[pod.key]
            if target in placement.closed or any(predicate(placement, pod, target) for predicate in PREDICATES):
                left.append(pod)
            else:
                placement.put(pod, target)
        if len(left) == len(pods):
            break
        pods = left
    return [pod.key for pod in pods]


def budgets(plan: Plan) -> Iterator[str]:
    """Check that all moves stay within every budget."""
    first = [pod for node in plan.leaving for pod in plan.to_move(node)]
    then = [pod for node in plan.up_to(1).unneeded for pod in plan.to_move(node)]
    yield from overdrawn(plan.cluster, first, then, in_turn=False)


def gangs(plan: Plan) -> Iterator[str]:
    """Check that each wave leaves every gang its minimum, or moves it whole."""
    for wave in sorted({plan.verdicts[node].wave for node in plan.unneeded}):
        now = {node for node in plan.unneeded if plan.verdicts[node].wave == wave and plan.to_move(node)}
        yield from torn_apart(plan.cluster.message, now)
    yield from torn_apart(plan.cluster.message, {*plan.decision.drain})
    yield from marked_wrongly(plan.cluster.message, plan.decision)


def waves(plan: Plan) -> Iterator[str]:
    """Check that only nodes of the first wave go now, and each wave: its pods have places, and the budgets suffice."""
    found = {plan.verdicts[node].wave for node in plan.unneeded}
    most = plan.settings.max_waves if plan.settings.HasField("max_waves") else 10
    if found and not 1 <= min(found) <= max(found) <= most:
        yield f"waves {sorted(found)}, 1 to {most} are allowed"
    for node in sorted({*plan.decision.delete_empty, *plan.decision.drain}):
        if plan.verdicts[node].wave != 1:
            yield f"{node} goes now, and is in wave {plan.verdicts[node].wave}"
    for wave in sorted(found - {1}):
        pods = [pod for node in plan.unneeded if plan.verdicts[node].wave == wave for pod in plan.to_move(node)]
        yield from overdrawn_later(plan.cluster, pods)
    for wave in sorted(found)[:-1]:
        # The last one is the whole plan, which the other checks cover.
        yield from (f"up to wave {wave}: {problem}" for check in (places, order) for problem in check(plan.up_to(wave)))


def minimums(plan: Plan) -> Iterator[str]:
    """Check that no node group falls below its minimum, and that all-or-nothing groups go as a whole."""
    reported = plan.cluster.message.actuation_status.deletions
    for name, group in plan.cluster.groups.items():
        members = {node for node, row in plan.cluster.nodes.items() if row.node_group == name}
        deleting = {one.node for one in reported if one.node_group == name} | (members & plan.leaving)
        left = group.target_size - len(deleting)
        going = members & set(plan.unneeded)
        if going and left - len(going) < group.min_size:
            yield f"group {name}: {left} - {len(going)} is below {group.min_size}"
        now = members & {*plan.decision.delete_empty, *plan.decision.drain}
        registered = len(members - plan.leaving)
        if group.zero_or_max and now and len(now) != registered:
            yield f"group {name} goes whole or not at all, {len(now)} of {registered} go"


def resource_minimums(plan: Plan) -> Iterator[str]:
    """Check that the minimum resources of the cluster stay."""
    for limit in plan.general.limits:
        counted = {
            node: 1 if limit.resource == "nodes" else plan.cluster.capacity(node).get(limit.resource, 0)
            for node in set(plan.cluster.nodes) - plan.leaving
            if selects(limit.nodes, plan.cluster.node_labels(node))
        }
        going = sum(counted.get(node, 0) for node in plan.unneeded)
        left = sum(counted.values()) - going
        if going and left < limit.minimum:
            yield f"{left} of {limit.resource} stay, {limit.minimum} must"


def selects(selector: plan_pb2.Selector, labels: Mapping[str, str]) -> bool:
    """Return whether a selector by names selects an object with these labels."""
    known = {
        LabelOperator.IN: lambda one: labels.get(one.key) in one.values,
        LabelOperator.NOT_IN: lambda one: labels.get(one.key) not in one.values,
        LabelOperator.EXISTS: lambda one: one.key in labels,
        LabelOperator.DOES_NOT_EXIST: lambda one: one.key not in labels,
    }
    return selector.match_labels.items() <= labels.items() and all(
        known[one.operator](one) for one in selector.match_expressions
    )


def limits(plan: Plan) -> Iterator[str]:
    """Check the limits of simultaneous deletions and drains; one all-or-nothing group may exceed them."""
    settings = plan.settings
    total = settings.max_scale_down_parallelism or 10
    drains = settings.max_drain_parallelism or 10
    status = plan.cluster.message.actuation_status
    atomic = {name for name, group in plan.cluster.groups.items() if group.zero_or_max}
    group_of = {node: row.node_group for node, row in plan.cluster.nodes.items()}
    empty = [node for node in plan.decision.delete_empty if group_of[node] not in atomic]
    drain = [node for node in plan.decision.drain if group_of[node] not in atomic]
    reported = {one.node for one in status.deletions}
    deleting = len(status.deletions) + len(plan.leaving - reported)
    draining = sum(one.drain for one in status.deletions)
    if (empty or drain) and len(empty) + len(drain) + deleting > total:
        yield f"{len(empty)} + {len(drain)} + {deleting} deletions, {total} allowed"
    if drain and len(drain) + draining > drains:
        yield f"{len(drain)} + {draining} drains, {drains} allowed"
    whole = {group_of[n] for n in [*plan.decision.delete_empty, *plan.decision.drain]} & atomic
    if len(whole) > 1:
        count = sum(group_of[n] in whole for n in [*plan.decision.delete_empty, *plan.decision.drain])
        if count + deleting > total:
            yield f"groups {sorted(whole)} overflow the limit together"


def timers(plan: Plan) -> Iterator[str]:
    """Check that no node goes before its time, and that none has been unneeded since a future time."""
    for node in plan.unneeded:
        verdict = plan.verdicts[node]
        since_s = verdict.since.seconds
        if since_s > plan.now_s:
            yield f"{node} is unneeded since the future"
        if verdict.fate == Fate.GOES_NOW and plan.now_s - since_s < _time_s(plan, node):
            yield f"{node} goes after {plan.now_s - since_s} s"


def health(plan: Plan) -> Iterator[str]:
    """Check that no node goes while too many are unready, and that the result says so."""
    settings, nodes = plan.settings, plan.cluster.nodes
    share = settings.max_total_unready_percentage if settings.HasField("max_total_unready_percentage") else 45.0
    most = settings.ok_total_unready_count if settings.HasField("ok_total_unready_count") else 3
    ages = {name: plan.now_s - row.create_time.seconds for name, row in nodes.items() if row.create_time.seconds > 0}
    starting = {name for name, age_s in ages.items() if age_s < 900}
    unready = [name for name in nodes if not plan.ready(name) and name not in plan.leaving | starting]
    is_unhealthy = len(unready) > most and 100 * len(unready) > share * len(nodes)
    told = plan.decision.result == reason_pb2.ScaleDownResult.SCALE_DOWN_CLUSTER_UNHEALTHY
    decided = plan.decision.result not in {
        reason_pb2.ScaleDownResult.SCALE_DOWN_ERROR, reason_pb2.ScaleDownResult.SCALE_DOWN_NOT_TRIED,
    }  # fmt: skip
    if decided and told != is_unhealthy:
        yield f"result {plan.decision.result} with {len(unready)} of {len(nodes)} nodes unready"
    if is_unhealthy and (plan.decision.delete_empty or plan.decision.drain):
        yield f"nodes go while {len(unready)} of {len(nodes)} are unready"


DELAYS = {
    "last_scale_up_time": ("delay_after_add", 600),
    "last_deletion_time": ("delay_after_delete", 0),
    "last_failure_time": ("delay_after_failure", 180),
}


def cooldowns(plan: Plan) -> Iterator[str]:
    """Check that no node goes in a cool-down; if only its group waits, it is not even unneeded."""
    waiting = {name for name, group in plan.cluster.groups.items() if _waits(plan, group)}
    local = plan.settings.delay_type_local
    going = {*plan.decision.delete_empty, *plan.decision.drain}
    for node in sorted(plan.unneeded if local else going):
        if waiting and (not local or plan.cluster.nodes[node].node_group in waiting):
            yield f"{node} goes in a cool-down of {sorted(waiting)}"
    if waiting and not local and plan.decision.result not in {
        reason_pb2.ScaleDownResult.SCALE_DOWN_IN_COOLDOWN, reason_pb2.ScaleDownResult.SCALE_DOWN_ERROR,
        reason_pb2.ScaleDownResult.SCALE_DOWN_NOT_TRIED, reason_pb2.ScaleDownResult.SCALE_DOWN_CLUSTER_UNHEALTHY,
    }:  # fmt: skip
        yield f"result {plan.decision.result} in a cool-down of {sorted(waiting)}"


def _waits(plan: Plan, group: snapshot_pb2.NodeGroup) -> bool:
    for field, (setting, default_s) in DELAYS.items():
        delay_s = getattr(plan.settings, setting).seconds if plan.settings.HasField(setting) else default_s
        if group.HasField(field) and getattr(group, field).seconds + delay_s > plan.now_s:
            return True
    return False


def evenness(plan: Plan) -> Iterator[str]:
    """Check the balance of similar node groups and their zones, in the whole plan and in the nodes that go now."""
    most = plan.general.balance.max_difference
    if most:
        now = [*plan.decision.delete_empty, *plan.decision.drain]
        for going in (list(plan.unneeded), now):
            yield from too_uneven(plan.cluster, plan.leaving, going, most)


def _time_s(plan: Plan, node: str) -> int:
    row = plan.cluster.nodes[node]
    name, default = ("unneeded_time", 600) if plan.ready(node) else ("unready_time", 1200)
    for holder in ([plan.groups[row.node_group]] if row.node_group in plan.groups else []) + [plan.settings]:
        if holder.HasField(name):
            return int(getattr(holder, name).seconds)
    return default
