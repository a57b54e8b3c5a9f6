"""Proof that a scale-up decision is valid, from only the request's snapshot and settings and the answer.

`offences` lists every violation; a valid plan has none. Shares no code with the planner. If a node is being deleted or
a pod was just evicted, pods use room that the answer does not name. Spread and affinity depend on their place, so these
are not checked then.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random

from tests.certificates import gangs
from tests.certificates.cluster import GATED, Cluster, Pod
from tests.certificates.columns import broken_columns
from tests.certificates.device_claims import sharing
from tests.certificates.growth_limits import Limits
from tests.certificates.new_nodes import HOSTNAME, NewNode, is_ready, new_node_of
from tests.certificates.scheduling import BY_OTHERS, PREDICATES, REASONS, Placement, selects
from trimtab.places import new_nodes, on_existing, on_upcoming, shortfalls
from trimtab.v1 import plan_pb2, reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

Group = reason_pb2.NodeGroupReason
Predicate = reason_pb2.PredicateReason
Skipped = reason_pb2.SkippedPodReason
Result = reason_pb2.ScaleUpResult
LONGEST_S = 900
ORDERS_TRIED = 40


class Plan:
    """A decision and its inputs."""

    def __init__(
        self,
        snapshot: pb.ClusterSnapshot,
        settings: plan_pb2.PlanSettings,
        decision: plan_pb2.ScaleUpDecision,
        now_s: int,
    ) -> None:
        self.cluster = cluster = Cluster(snapshot)
        self.settings, self.general, self.decision, self.now_s = settings.scale_up, settings.planner, decision, now_s
        self.leaving = cluster.leaving(now_s)
        cutoff = self.general.expendable_pods_priority_cutoff
        self.cutoff = cutoff if self.general.HasField("expendable_pods_priority_cutoff") else -10
        self.pods = dict(cluster.pods) | _evicted(cluster)
        self.known = set(cluster.nodes)
        self.templates: dict[str, NewNode | None] = {
            key: new_node_of(cluster, group, self.settings, now_s) for key, group in cluster.groups.items()
        }
        self.daemons: dict[str, str] = {}
        self.late = set[str]()
        self.upcoming = {key: self._join(key, "upcoming", count) for key, count in sorted(self._coming().items())}
        self.new: dict[str, list[str]] = {}
        self.target: dict[str, str] = {}
        self.on_existing, self.on_upcoming = on_existing(decision), on_upcoming(decision)
        self.new_nodes, self.lacking = new_nodes(decision), shortfalls(decision)
        for group, nodes in self.new_nodes.items():
            self.new[group] = self._join(group, "new", len(nodes))
            for name, pods in zip(self.new[group], nodes, strict=False):
                self.target.update(dict.fromkeys(pods, name))
        self.hidden = bool(self.leaving) or bool(snapshot.actuation_status.recent_evictions)

    def _join(self, group: str, kind: str, count: int) -> list[str]:
        names = [f"{group} {kind} {i}" for i in range(count)]
        template = self.templates.get(group)
        if template is None:
            return []
        for name in names:
            for pod in template.join(self.cluster, name):
                self.daemons[pod.key] = name
        return names

    def _coming(self) -> dict[str, int]:
        """Return by group how many requested nodes take no pods yet."""
        coming = {}
        for key, group in self.cluster.groups.items():
            members = [name for name in self.known if self.cluster.nodes[name].node_group == key]
            young = [name for name in members if self._starts(name)]
            missing = max(group.target_size - len(members), 0)
            self.late |= {key} if missing and self._is_late(group) else set()
            missing = 0 if key in self.late or group.health == pb.NodeGroupHealth.BACKED_OFF else missing
            coming[key] = min(missing + len(young), group.target_size)
        return coming

    def _longest_s(self, field: str) -> int:
        return getattr(self.general, field).seconds if self.general.HasField(field) else LONGEST_S  # type: ignore

    def _is_late(self, group: pb.NodeGroup) -> bool:
        return 0 < group.last_scale_up_time.seconds < self.now_s - self._longest_s("max_node_provision_time")

    def _starts(self, name: str) -> bool:
        row = self.cluster.nodes[name]
        young = self.now_s - row.create_time.seconds < self._longest_s("max_node_startup_time")
        return young and not is_ready(self.cluster, row, self.settings) and name not in self.leaving

    def running(self) -> dict[str, str]:
        """Return the pods' nodes before any placement, without nodes being deleted and expendable pods."""
        stays = [one for one in self.pods.values() if not one.ended and one.spec.priority >= self.cutoff]
        return {pod.key: pod.node for pod in stays if pod.node in self.known - self.leaving}

    def waiting(self) -> dict[str, Pod]:
        """Return the pending pods."""
        return {
            key: pod for key, pod in self.cluster.pods.items() if not pod.node and not pod.ended and not pod.deletion_s
        }

    def placement(self, *, new: bool) -> Placement:
        """Return the cluster before pods are placed, with or without the new nodes."""
        nodes = self.known - self.leaving | {name for names in self.upcoming.values() for name in names}
        if new:
            nodes |= {name for names in self.new.values() for name in names}
        daemons = {key: node for key, node in self.daemons.items() if node in nodes}
        return Placement(self.cluster, nodes, self.running() | daemons)

    def end(self) -> Placement:
        """Return the cluster as the plan leaves it."""
        placement = self.placement(new=True)
        for key, node in [*self.on_existing.items(), *self.target.items()]:
            if key in self.pods and node in placement.on:
                placement.put(self.pods[key], node)
        for key, group in sorted(self.on_upcoming.items()):
            nodes = self.upcoming.get(group, [])
            place = next((node for node in nodes if admits(placement, self.pods[key], node, exact=False)), "")
            if place:
                placement.put(self.pods[key], place)
        return placement


def _evicted(cluster: Cluster) -> dict[str, Pod]:
    """Return recently evicted pods as they will be recreated."""
    found = {}
    for one in cluster.message.actuation_status.recent_evictions:
        if one.HasField("spec"):
            spec = cluster.message.pod_specs[one.spec]
            labels = cluster.label_set(one.label_set)
            pod = Pod(one.namespace, one.name, one.uid, spec, labels, "", one.owner, 0, 0, 0, 0, "")
            found[pod.key] = pod
    cluster.pods = found | cluster.pods
    return found


def admits(placement: Placement, pod: Pod, node: str, *, exact: bool = True) -> bool:
    """Return whether a node admits a pod that is on no node; if not exact, only by node-local predicates."""
    placement.put(pod, node)
    found = not any(one(placement, pod, node) for one in PREDICATES if exact or one not in BY_OTHERS)
    placement.take_off(pod, node)
    return found


def offences(
    snapshot: pb.ClusterSnapshot,
    settings: plan_pb2.PlanSettings,
    decision: plan_pb2.ScaleUpDecision,
    now_s: int,
    *,
    bounded: bool = False,
    ordered: bool = True,
) -> list[str]:
    """Return every violation of a decision. bounded : a deadline or a bound may have excluded groups; ordered : an
    order is looked for in which the scheduler can place all pods, which takes minutes for a thousand."""
    plan = Plan(snapshot, settings, decision, now_s)
    checks = (lists, splits, prices, skipped, places, *((order, arrival) if ordered else ()), limits, results, options)
    problems = [f"{check.__name__}: {problem}" for check in checks for problem in check(plan)]
    problems += [f"gangs: {problem}" for problem in gangs.offences(snapshot, decision)]
    return problems + [f"reasons: {problem}" for problem in reasons(plan, bounded or decision.incomplete)]


def lists(plan: Plan) -> Iterator[str]:
    """Check that every pending pod is in exactly one list, and that lists are sorted."""
    decision = plan.decision
    if plan.settings.HasField("enabled") and not plan.settings.enabled:
        return
    named = Counter(decision.places.pods)
    named.update(pod for entry in decision.unschedulable for pod in entry.pods)
    named.update(entry.pod for entry in decision.skipped)
    for key, count in sorted(named.items()):
        if count > 1:
            yield f"{key} is in {count} lists"
    marked = 32
    for key, pod in sorted(plan.waiting().items()):
        if key not in named and pod.flags & marked:
            yield f"{key} is in no list"
    yield from broken_columns(decision.places)
    for key in decision.after_new_nodes:
        if key not in plan.on_existing and key not in plan.on_upcoming:
            yield f"{key} waits for new nodes, and is on no other node"
    if decision.after_new_nodes and not decision.splits:
        yield f"{decision.after_new_nodes[0]} waits for new nodes, of which there are none"
    for rows in (
        [entry.node_group for entry in decision.splits], [entry.pods[0] for entry in decision.unschedulable],
        [entry.pod for entry in decision.skipped], list(decision.after_new_nodes),
        *(list(entry.pods) for entry in (*decision.unschedulable, *decision.waiting_placeholders)),
    ):  # fmt: skip
        if rows != sorted(set(rows)):
            yield f"not sorted, or twice: {rows[:5]}"


def splits(plan: Plan) -> Iterator[str]:
    """Check sizes; each new node serves some pod, except in groups that grow as a whole."""
    for entry in plan.decision.splits:
        group = plan.cluster.groups.get(entry.node_group)
        if group is None:
            yield f"group {entry.node_group} does not exist"
            continue
        if (entry.current_size, entry.max_size) != (group.target_size, group.max_size):
            yield f"{group.id}: sizes {entry.current_size}, {entry.max_size} are not the group's"
        if not entry.current_size < entry.new_size <= entry.max_size:
            yield f"{group.id} grows from {entry.current_size} to {entry.new_size} of {entry.max_size}"
        if group.zero_or_max and entry.new_size != group.max_size:
            yield f"{group.id} grows whole or not at all"
        if not group.zero_or_max and not all(plan.new_nodes[group.id]):
            yield f"{group.id}: a new node is for no pod"
        if not any(plan.new_nodes[group.id]):
            yield f"{group.id} grows for nothing"
        for reason in (Group.BACKED_OFF, Group.UNHEALTHY, Group.NO_TEMPLATE, Group.NODE_GROUP_INVALID):
            if holds(plan, group, reason) and group.id not in plan.late:  # such groups are asked last
                yield f"{group.id} grows in spite of {Group.Code.Name(reason)}"


def prices(plan: Plan) -> Iterator[str]:
    """Check that prices add up, and that unknown ones are absent."""
    total = 0.0
    for entry in plan.decision.splits:
        group = plan.cluster.groups[entry.node_group]
        if entry.HasField("price_per_hour") != group.HasField("price_per_hour"):
            yield f"{entry.node_group} has a price, or its split has, and not both"
        price = group.price_per_hour * (entry.new_size - entry.current_size)
        total += price
        if abs(entry.price_per_hour - price) > 1e-9 * max(price, 1):
            yield f"{entry.node_group} costs {price}, not {entry.price_per_hour}"
    if abs(plan.decision.price_per_hour - total) > 1e-9 * max(total, 1):
        yield f"all costs {total}, not {plan.decision.price_per_hour}"


def skipped(plan: Plan) -> Iterator[str]:
    """Check that exactly the pods that must be skipped are skipped."""
    served = {*plan.decision.places.pods, *plan.lacking}
    waiting = plan.waiting()
    for entry in plan.decision.skipped:
        if entry.pod not in waiting:
            yield f"{entry.pod} does not wait"
        elif not _is_skipped_for(plan, waiting[entry.pod], entry.reason):
            yield f"{entry.pod} is not {Skipped.Code.Name(entry.reason)}"
    for key in sorted(served & set(waiting)):
        for reason in (Skipped.EXPENDABLE, Skipped.SCHEDULING_GATED, Skipped.OTHER_SCHEDULER):
            if _is_skipped_for(plan, waiting[key], reason):
                yield f"{key} is served, but {Skipped.Code.Name(reason)}"


def _is_skipped_for(plan: Plan, pod: Pod, reason: int) -> bool:
    if reason == Skipped.EXPENDABLE:
        return bool(pod.spec.priority < plan.cutoff)
    if reason == Skipped.SCHEDULING_GATED:
        return bool(pod.flags & GATED)
    if reason == Skipped.OTHER_SCHEDULER:
        served = {"", "default-scheduler", *plan.settings.scheduler_names}
        return plan.cluster.text(pod.spec.scheduler_name) not in served
    if reason in (Skipped.HELD_WITH_GANG, Skipped.BEYOND_GANG_MINIMUM):
        found = [one for one in gangs.gangs_in(plan.cluster.message).values() if pod.key in one.pods]
        return any(bool(one.held) == (reason == Skipped.HELD_WITH_GANG) for one in found)
    if reason == Skipped.UNSUPPORTED_CONSTRAINT:
        return bool(pod.spec.unsupported)
    return reason == Skipped.TOO_YOUNG and pod.created_s > 0


def places(plan: Plan) -> Iterator[str]:
    """Check that every pod fits its planned node, with all pods placed at the same time.

    Predicates across nodes also depend on the order in which pods are placed: `order` checks that.
    """
    end = plan.end()
    for key, node in sorted([*plan.on_existing.items(), *plan.target.items()]):
        if key not in plan.pods:
            yield f"{key} is not known"
            continue
        if node not in end.nodes or not plan.cluster.nodes[node].ready:
            yield f"{key} goes to {node}, which does not stay or is not ready"
            continue
        for predicate in PREDICATES:
            if predicate not in BY_OTHERS and (problem := predicate(end, plan.pods[key], node)):
                yield f"{key} on {node}: {problem} ({predicate.__name__})"


def order(plan: Plan) -> Iterator[str]:
    """Check that the scheduler can place all pods in some order: those that fit now, then the others with new nodes."""
    now = {key: (node,) for key, node in plan.on_existing.items()}
    now |= {key: tuple(plan.upcoming.get(group, ())) for key, group in plan.on_upcoming.items()}
    then = {key: (node,) for key, node in plan.target.items()}
    then |= {key: now.pop(key) for key in plan.decision.after_new_nodes if key in now}
    if plan.hidden or not now.keys() | then.keys() <= plan.pods.keys():
        return
    stuck: list[str] = []
    for attempt in range(ORDERS_TRIED):
        start = plan.placement(new=False)
        stuck = _stuck(plan, start, now, attempt)
        if not stuck:
            placement = plan.placement(new=True)
            for node, pods in start.on.items():
                for pod in pods:
                    if pod.key in now:
                        placement.put(pod, node)
            stuck = _stuck(plan, placement, then, attempt)
        if not stuck:
            return
    yield f"in no order can {stuck[:5]} be placed where they go"


def arrival(plan: Plan) -> Iterator[str]:
    """Check that the scheduler can place all pods in some order, too, if all new nodes are there from the start."""
    targets = {key: (node,) for key, node in plan.on_existing.items()}
    targets |= {key: tuple(plan.upcoming.get(group, ())) for key, group in plan.on_upcoming.items()}
    targets |= {key: (node,) for key, node in plan.target.items()}
    if plan.hidden or not targets.keys() <= plan.pods.keys():
        return
    stuck: list[str] = []
    for attempt in range(ORDERS_TRIED):
        if not (stuck := _stuck(plan, plan.placement(new=True), targets, attempt)):
            return
    yield f"with all new nodes present, in no order can {stuck[:5]} be placed where they go"


def _stuck(plan: Plan, placement: Placement, targets: dict[str, tuple[str, ...]], attempt: int) -> list[str]:
    """Place pods round by round, each once it fits; return those that never fit."""
    keys = sorted(targets, reverse=attempt == 1)
    random = Random(attempt)
    if attempt > 2:
        random.shuffle(keys)
        targets = {key: tuple(random.sample(nodes, len(nodes))) for key, nodes in targets.items()}
    if attempt % 2 == 0:
        keys.sort(key=lambda key: _turn(plan, plan.pods[key]))
    while keys:
        left = []
        for key in keys:
            pod = plan.pods[key]
            node = next((one for one in targets[key] if admits(placement, pod, one)), "")
            if node:
                placement.put(pod, node)
            else:
                left.append(key)
        if len(left) == len(keys):
            break
        keys = left
    return keys


def _turn(plan: Plan, pod: Pod) -> int:
    """Return when a pod is placed: the more other pods may keep it out, the earlier; pods without such constraints
    last, because they keep others out.
    """
    if pod.spec.pod_anti_affinity:
        return 0
    found = [4]
    for row in pod.spec.topology_spread:
        by_node = plan.cluster.text(row.topology_key) == HOSTNAME
        counts_itself = selects(plan.cluster, row.selector, pod.labels)
        found.append(3 if not by_node else 1 if counts_itself else 2)
    return min(found)


def limits(plan: Plan) -> Iterator[str]:
    """Check that the plan keeps all limits."""
    known = Limits(plan.cluster, plan.general, plan.leaving, plan.templates)
    yield from known.exceeded(_added(plan))
    most = plan.settings.max_new_nodes if plan.settings.HasField("max_new_nodes") else 1000
    if sum(_added(plan).values()) > most:
        yield f"{sum(_added(plan).values())} nodes are added, {most} may be"


def _added(plan: Plan) -> dict[str, int]:
    return {entry.node_group: entry.new_size - entry.current_size for entry in plan.decision.splits}


def results(plan: Plan) -> Iterator[str]:
    """Check the result."""
    decision = plan.decision
    if decision.result in {Result.SCALE_UP_NOT_TRIED, Result.SCALE_UP_ERROR}:
        return
    right = Result.SCALE_UP_NOT_NEEDED
    if decision.splits:
        right = Result.SCALE_UP_NEEDED
    elif decision.unschedulable:
        right = Result.SCALE_UP_NO_OPTIONS
    if decision.incomplete and not (decision.unschedulable and decision.detail):
        yield "said to be incomplete, without a pod that is left or a sentence"
    if decision.result != right:
        yield f"result {Result.Code.Name(decision.result)}, should be {Result.Code.Name(right)}"


def options(plan: Plan) -> Iterator[str]:
    """Check that chosen options have no reason, all others have one, and groups are excluded correctly."""
    for option in plan.decision.options:
        if option.node_group not in plan.cluster.groups or option.node_count <= 0:
            yield f"option {option.node_group} with {option.node_count} nodes"
        if option.chosen != (option.reason == Group.UNSPECIFIED):
            yield f"option {option.node_group} is chosen: {option.chosen}, {Group.Code.Name(option.reason)}"


def reasons(plan: Plan, bounded: bool) -> Iterator[str]:
    """Check that no group could help a pod reported as unschedulable, and that every reason is true."""
    end = plan.end()
    in_gangs = {pod for gang in gangs.gangs_in(plan.cluster.message).values() for pod in gang.pods}
    for key, reason in sorted(plan.decision.excluded.items()):
        if key not in plan.cluster.groups or not holds(plan, plan.cluster.groups[key], reason, bounded):
            yield f"{key} is not {Group.Code.Name(reason)}"
    for name, entry in plan.lacking.items():
        if set(entry.reasons) != set(plan.cluster.groups):
            yield f"{name}: reasons of {sorted(entry.reasons)}, groups are {sorted(plan.cluster.groups)}"
        if not entry.detail:
            yield f"{name}: no sentence"
        for key, reason in sorted(entry.reasons.items()):
            group = plan.cluster.groups.get(key)
            if group is None or name not in plan.pods:
                continue
            if reason == Group.GANG_INCOMPLETE:
                if name not in in_gangs:
                    yield f"{name}: {key} is said to be of no use to its gang, and it is in none"
            elif reason == Group.PREDICATE_FAILED:
                failed = entry.failed_predicates.get(key, 0)
                yield from _wrong_predicate(plan, end, plan.pods[name], key, failed)
            elif not holds(plan, group, reason, bounded):
                yield f"{name}: {key} is not {Group.Code.Name(reason)}"


def _wrong_predicate(plan: Plan, end: Placement, pod: Pod, key: str, failed: int) -> Iterator[str]:
    """Check that the named predicate is the first that refuses the pod on an additional node of the group."""
    template = plan.templates[key]
    if template is None:
        yield f"{pod.key}: a predicate refuses it on {key}, of which nothing is known"
        return
    name = f"{key} more"
    if name not in plan.cluster.nodes:
        template.join(plan.cluster, name)
    end.nodes.add(name)
    end.on[name] = [one for one in plan.cluster.pods.values() if one.node == name]
    more = [(name, one) for one in end.on[name] if one.spec.pod_anti_affinity]
    end.repelling.extend(more)
    beside = sharing(pod, plan.pods.values(), {one.key for pods in end.on.values() for one in pods})
    for one in (*beside, pod):
        end.put(one, name)
    failing = [reason for reason, rule in REASONS.items() if any(rule(end, one, name) for one in (*beside, pod))]
    for one in (pod, *reversed(beside)):
        end.take_off(one, name)
    del end.repelling[len(end.repelling) - len(more) :]
    end.nodes.remove(name)
    del end.on[name]
    named = Predicate.Code.Name(failed)
    # A pin is part of the node affinity here.
    named = "NODE_AFFINITY_NOT_MATCHED" if named == "NODE_NAME_MISMATCH" else named
    if plan.hidden and REASONS.get(named) in BY_OTHERS:
        return
    if failing[:1] != [named]:
        yield f"{pod.key}: {key} fails {failing}, said to fail {named}"


def holds(plan: Plan, group: pb.NodeGroup, reason: int, bounded: bool = False) -> bool:
    """Return whether the reason why a group does not grow is true."""
    added = _added(plan)
    size = group.target_size + added.get(group.id, 0)
    step = max(group.max_size - size, 1) if group.zero_or_max else 1
    if reason == Group.MAX_SIZE_REACHED:
        return size >= group.max_size
    if reason in {Group.RESOURCE_LIMIT_REACHED, Group.NOT_WHOLE}:
        known = Limits(plan.cluster, plan.general, plan.leaving, plan.templates)
        with_more = added | {group.id: added.get(group.id, 0) + step}
        over = any(known.exceeded(with_more, group.id)) if plan.templates[group.id] else False
        return over or (reason == Group.NOT_WHOLE and group.zero_or_max and _too_many(plan, added, step))
    if reason == Group.MAX_NEW_NODES_REACHED:
        return _too_many(plan, added, step)
    chain = list(plan.settings.expanders)
    priority = plan.settings.highest_priority.label or "zalando.org/scaling-priority"
    template = plan.templates[group.id]
    simple = {
        Group.BACKED_OFF: group.health == pb.NodeGroupHealth.BACKED_OFF or group.id in plan.late,
        Group.UNHEALTHY: group.health == pb.NodeGroupHealth.UNHEALTHY,
        Group.NO_TEMPLATE: template is None,
        Group.NODE_GROUP_INVALID: not group.min_size <= group.max_size or group.target_size > group.max_size,
        Group.PRICE_UNKNOWN: not group.HasField("price_per_hour") and plan_pb2.Expander.PRICE in chain,
        Group.PRIORITY_INVALID: plan_pb2.Expander.HIGHEST_PRIORITY in chain
        and template is not None
        and not _is_number(template.labels.get(priority, "0")),
        Group.NOT_EVALUATED: bounded,
    }
    return bool(simple.get(reason, False))


def _too_many(plan: Plan, added: dict[str, int], step: int) -> bool:
    most = plan.settings.max_new_nodes if plan.settings.HasField("max_new_nodes") else 1000
    return sum(added.values()) + step > most


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
