"""Proof that a decision on ProvisioningRequests is valid, from only the request's snapshot and settings and the answer.

`offences` lists every violation; a valid answer has none. Shares no code with the planner. All or nothing is proved for
every request: a request holds room for each pod that has not started, or for none. Where room is missing, it is proved
for requests of one set without affinity, spread and devices that even the room left at the end would not do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.certificates import scale_up
from tests.certificates.cluster import Pod
from tests.certificates.growth_limits import Limits
from tests.certificates.new_nodes import is_ready
from tests.certificates.scheduling import BY_OTHERS, PREDICATES, Placement
from trimtab.common.deltas.renumbering import NewIndices, renumber
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

Outcome = plan_pb2.CapacityRequestOutcome
Kind = plan_pb2.CapacityClassKind
CLASSES = {
    "check-capacity.autoscaling.x-k8s.io": Kind.CHECK_CAPACITY,
    "best-effort-atomic-scale-up.autoscaling.x-k8s.io": Kind.ATOMIC_SCALE_UP,
}
HOLDING = (Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.BOOKED)
BOOKING_S, SEEK_S, MOST_NEW = 600, 7 * 24 * 3600, 1000


def offences(
    snapshot: pb.ClusterSnapshot,
    settings: plan_pb2.PlanSettings,
    decision: plan_pb2.CapacityRequestsDecision,
    now_s: int,
) -> list[str]:
    """Return every violation of a decision."""
    plan = _CapacityPlan(snapshot, settings, decision, now_s)
    checks = (listed, lives, whole, places, growth, no_room)
    return [f"{check.__name__}: {problem}" for check in checks for problem in check(plan)]


class _CapacityPlan:
    """A decision and its inputs."""

    def __init__(
        self,
        snapshot: pb.ClusterSnapshot,
        settings: plan_pb2.PlanSettings,
        decision: plan_pb2.CapacityRequestsDecision,
        now_s: int,
    ) -> None:
        given = settings.capacity_requests
        self.given, self.settings, self.decision, self.now_s = given, settings, decision, now_s
        self.message, self.specs, self.labels = _one_dictionary(snapshot)
        kinds = {one.name: one.kind for one in given.classes} or CLASSES
        self.kind = {one.class_name: kinds.get(one.class_name, 0) for one in snapshot.capacity_requests.requests}
        self.requests = {
            (one.namespace, one.name): one
            for one in snapshot.capacity_requests.requests
            if self.kind[one.class_name]
            and not (one.failed or one.booking_expired or one.capacity_revoked)
            and one.processor_instance == given.processor_instance
            and (given.enabled or not given.HasField("enabled"))
        }
        self.answers = {(one.namespace, one.name): one for one in decision.requests}
        self.nodes = scale_up.Plan(self.message, settings, plan_pb2.ScaleUpDecision(splits=decision.splits), now_s)
        self.cluster = self.nodes.cluster
        self.started = self._started()

    def _started(self) -> dict[tuple[str, str], int]:
        """Return how many pods that name each request are on nodes."""
        found: Counter[tuple[str, str]] = Counter()
        for pod in self.cluster.pods.values():
            if pod.node and pod.spec.capacity_request:
                found[pod.namespace, self.cluster.text(pod.spec.capacity_request)] += 1
        return dict(found)

    def pods_of(self, key: tuple[str, str]) -> list[tuple[Pod, str]]:
        """Return pods like those of a request, each with the node where the answer has room for it."""
        request, found = self.requests[key], []
        for at, place in enumerate(self.answers[key].places):
            each = request.pod_sets[place.pod_set]
            node = place.node
            if not node:
                coming = self.nodes.upcoming.get(place.node_group, [])
                every = [*coming, *self.nodes.new.get(place.node_group, [])]
                node = every[place.number] if place.number < len(every) else "?"
            for number in range(place.pod_count):
                name = f"{key[1]}#{at}-{number}"
                found.append((self.pod(request, each, name), node))
        return found

    def pod(self, request: pb.CapacityRequest, each: pb.CapacityPodSet, name: str) -> Pod:
        """Return one pod of a set."""
        spec, labels = self.specs[each.spec], self.labels[each.label_set]
        return Pod(request.namespace, name, name, spec, labels, "", "", pb.PodPhase.PENDING, 0, 0, 0, "")

    def end(self) -> tuple[Placement, list[tuple[Pod, str]]]:
        """Return the cluster with all room that is held, and the pods for which it is held."""
        placement, every = self.nodes.placement(new=True), []
        for key in sorted(self.answers.keys() & self.requests.keys()):
            every += self.pods_of(key)
        for pod, node in every:
            if node in placement.on:
                placement.put(pod, node)
        return placement, every


def _one_dictionary(
    snapshot: pb.ClusterSnapshot,
) -> tuple[pb.ClusterSnapshot, list[pb.PodSpec], list[dict[str, str]]]:
    """Return the snapshot with the strings and resources of its requests appended, the specs of the requests in these
    numbers, and their label sets."""
    whole, given = pb.ClusterSnapshot(), snapshot.capacity_requests.dictionary
    whole.CopyFrom(snapshot)
    if not whole.strings:
        whole.strings.append("")
    first = len(whole.strings)
    whole.strings.extend(given.strings)
    specs = []
    for row in given.pod_specs:
        spec = pb.PodSpec()
        spec.CopyFrom(row)
        renumber(spec, NewIndices(lambda at: at + first if at else 0, int, int))
        for amount in spec.requests:
            name = given.resources[amount.resource]
            if name not in whole.resources:
                whole.resources.append(name)
            amount.resource = list(whole.resources).index(name)
        specs.append(spec)
    sets = pb.ClusterSnapshot(strings=given.strings, label_sets=given.label_sets)
    return whole, specs, list(scale_up.Cluster(sets).sets) or [{}]


def listed(plan: _CapacityPlan) -> Iterator[str]:
    """Check that each request of an answered class that has not ended has one answer, sorted."""
    keys = [(one.namespace, one.name) for one in plan.decision.requests]
    if keys != sorted(plan.requests):
        yield f"{keys} are answered, not {sorted(plan.requests)}"


def lives(plan: _CapacityPlan) -> Iterator[str]:
    """Check outcomes that follow from conditions, time and started pods alone."""
    booking_s = plan.given.booking_time.seconds or BOOKING_S
    for key, request in plan.requests.items():
        one = plan.answers.get(key)
        if one is None:
            continue
        count, started = sum(each.count for each in request.pod_sets), plan.started.get(key, 0)
        expected: tuple[int, ...] = (Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.NOT_FOUND)
        if plan.kind[request.class_name] == Kind.CHECK_CAPACITY and request.no_retry:
            expected = (Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.FAILED)
        seek_s = request.max_seek_time.seconds or plan.given.max_seek_time.seconds or SEEK_S
        if request.HasField("provision_time"):
            expected = (Outcome.BOOKED, Outcome.REVOKED)
            if request.provision_time.seconds + booking_s <= plan.now_s:
                expected = (Outcome.BOOKING_EXPIRED,)
            if count and started >= count:
                expected = (Outcome.CONSUMED,)
        elif request.HasField("create_time") and request.create_time.seconds + seek_s <= plan.now_s:
            expected = (Outcome.EXPIRED,)
        elif request.problem:
            expected = (Outcome.INVALID,)
        if one.outcome not in expected:
            yield f"{key}: {Outcome.Code.Name(one.outcome)}"
        if one.started_count != started or one.pod_count != count:
            yield f"{key}: {one.started_count} of {one.pod_count} have started, not {started} of {count}"


def whole(plan: _CapacityPlan) -> Iterator[str]:
    """Check that each request holds room for all of its pods that have not started, or for none."""
    for key, one in plan.answers.items():
        request, held = plan.requests.get(key), sum(place.pod_count for place in one.places)
        if request is None:
            continue
        missing = sum(each.count for each in request.pod_sets) - plan.started.get(key, 0)
        expected = max(missing, 0) if one.outcome in HOLDING else 0
        if held != expected or one.booked_count != expected:
            yield f"{key}: room for {held} ({one.booked_count}) of {expected} pods"
        by_set: Counter[int] = Counter()
        for place in one.places:
            by_set[place.pod_set] += place.pod_count
        if any(count > request.pod_sets[at].count for at, count in by_set.items()):
            yield f"{key}: more room than a set has pods"
        counts = [by_set[at] for at in range(len(request.pod_sets))]
        is_new = not plan.started.get(key) and one.outcome in HOLDING
        if is_new and counts != [each.count for each in request.pod_sets]:
            yield f"{key}: a set has room for some of its pods"


def places(plan: _CapacityPlan) -> Iterator[str]:
    """Check that all pods fit their nodes at the same time, and that they can be placed in some order."""
    end, every = plan.end()
    for pod, node in every:
        if node not in end.on:
            yield f"{pod.key} goes to {node}, which does not stay"
            continue
        for predicate in PREDICATES:
            if predicate not in BY_OTHERS and (problem := predicate(end, pod, node)):
                yield f"{pod.key} on {node}: {problem} ({predicate.__name__})"
    placement, left = plan.nodes.placement(new=True), [one for one in every if one[1] in end.on]
    while left:
        stuck = []
        for pod, node in left:
            if scale_up.admits(placement, pod, node):
                placement.put(pod, node)
            else:
                stuck.append((pod, node))
        if len(stuck) == len(left):
            yield f"{[pod.key for pod, _ in stuck][:5]} cannot be placed where they go"
            return
        left = stuck


def growth(plan: _CapacityPlan) -> Iterator[str]:
    """Check sizes, limits and health of groups, and that each new node has room for a request that may have it."""
    added = {split.node_group: split.new_size - split.current_size for split in plan.decision.splits}
    users: dict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
    for key, one in plan.answers.items():
        for place in one.places:
            if not place.node:
                users[place.node_group, place.number].add(key)
    for split in plan.decision.splits:
        group = plan.cluster.groups[split.node_group]
        if (split.current_size, split.max_size) != (group.target_size, group.max_size):
            yield f"{group.id}: sizes {split.current_size}, {split.max_size} are not the group's"
        if not split.current_size < split.new_size <= split.max_size:
            yield f"{group.id} grows from {split.current_size} to {split.new_size} of {split.max_size}"
        backed_off = group.health == pb.NodeGroupHealth.BACKED_OFF and not (
            0 < group.backoff_until.seconds <= plan.now_s
        )
        if backed_off or group.health == pb.NodeGroupHealth.UNHEALTHY:
            yield f"{group.id} grows, and is not healthy"
        if group.zero_or_max and split.new_size != group.max_size:
            yield f"{group.id} grows whole or not at all"
        first = len(plan.nodes.upcoming.get(group.id, []))
        for number in range(first, first + added[group.id]):
            kinds = {plan.kind[plan.requests[key].class_name] for key in users[group.id, number]}
            if not group.zero_or_max and Kind.ATOMIC_SCALE_UP not in kinds:
                yield f"{group.id}: new node {number} is for no request that may add nodes"
    most = plan.settings.scale_up.max_new_nodes if plan.settings.scale_up.HasField("max_new_nodes") else MOST_NEW
    if sum(added.values()) > most:
        yield f"{sum(added.values())} new nodes, {most} may be"
    limits = Limits(plan.cluster, plan.settings.planner, plan.nodes.leaving, plan.nodes.templates)
    yield from limits.exceeded(added)


def no_room(plan: _CapacityPlan) -> Iterator[str]:
    """Check requests of one set for which there is no room, if only the node decides and no real pod waits, which would
    come first: the room at the end is too little as well. With quotas, groups count as full."""
    if plan.nodes.waiting() or plan.nodes.hidden:
        return
    end, _ = plan.end()
    for key, request in plan.requests.items():
        one = plan.answers.get(key)
        if one is None or one.outcome not in (Outcome.NOT_FOUND, Outcome.FAILED) or len(request.pod_sets) != 1:
            continue
        spec = plan.specs[request.pod_sets[0].spec]
        others = spec.pod_affinity, spec.pod_anti_affinity, spec.topology_spread, spec.host_ports
        devices = spec.claims, spec.extended_device_requests
        if any((*others, *devices)) or any(row.spec.pod_anti_affinity for row in plan.cluster.pods.values()):
            continue
        wanted, room = request.pod_sets[0].count, 0
        pod = plan.pod(request, request.pod_sets[0], f"{key[1]}#more")
        nodes = [name for name in sorted(end.on) if name not in plan.nodes.known or _is_ready(plan, name)]
        for node in nodes:
            room += _more(end, pod, node, wanted - room)
        if plan.kind[request.class_name] == Kind.ATOMIC_SCALE_UP and not plan.settings.planner.limits:
            room += _room_of_groups(plan, pod, wanted - room)
        if room >= wanted:
            yield f"{key}: {one.detail}; there is room for {wanted}"


def _is_ready(plan: _CapacityPlan, name: str) -> bool:
    return is_ready(plan.cluster, plan.cluster.message_nodes()[name], plan.settings.scale_up)


def _more(end: Placement, pod: Pod, node: str, most: int) -> int:
    """Return how many more pods like one a node takes, up to `most`."""
    count = 0
    while count < most and scale_up.admits(end, pod, node):
        end.put(pod, node)
        count += 1
    for _ in range(count):
        end.take_off(pod, node)
    return count


def _room_of_groups(plan: _CapacityPlan, pod: Pod, most: int) -> int:
    """Return for how many pods the nodes that groups may still get have room, all groups together."""
    new = {split.node_group: split.new_size for split in plan.decision.splits}
    may_add = plan.settings.scale_up.max_new_nodes if plan.settings.scale_up.HasField("max_new_nodes") else MOST_NEW
    may_add -= sum(split.new_size - split.current_size for split in plan.decision.splits)
    rooms: list[int] = []
    for key, group in plan.cluster.groups.items():
        left = group.max_size - new.get(key, group.target_size)
        healthy = group.health in (pb.NodeGroupHealth.UNSPECIFIED, pb.NodeGroupHealth.HEALTHY)
        if left <= 0 or not healthy or group.zero_or_max:
            continue
        grown = [plan_pb2.ScaleUpSplit(node_group=key, new_size=1)]
        one = scale_up.Plan(plan.message, plan.settings, plan_pb2.ScaleUpDecision(splits=grown), plan.now_s)
        (node,) = one.new[key]
        rooms += [_more(one.placement(new=True), pod, node, most)] * left
    return sum(sorted(rooms, reverse=True)[: max(may_add, 0)])
