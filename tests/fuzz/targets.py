"""The readers of external bytes: each target takes a generator, makes one input and reads it.

A target raises every error that is not a refusal; a read past an array raises with `NUMBA_BOUNDSCHECK=1`.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import numpy as np
from opentelemetry.metrics import NoOpMeterProvider

from tests.fuzz.external_calls import best_options_seeds, external_seeds, read_best_options, read_calls
from tests.fuzz.mutations import damaged, with_extremes
from tests.fuzz.objects import objects
from tests.fuzz.shapes import SHAPES
from trimtab.common.rpc.errors import ServiceError
from trimtab.planner.decisions.table import TABLE, codes
from trimtab.planner.placement.hints import PodGroups, group_pods
from trimtab.planner.scale_down.state import recall
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.request_limits import Bounds, RequestMemory
from trimtab.planner.service.settings import PlannerOptions
from trimtab.planner.service.snapshot_reader import reserve_for_reading
from trimtab.planner.service.warm_up import NOW_S, growing_cluster, small_cluster
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

REFUSALS = (SnapshotError,)
MEMORY = RequestMemory(PlannerOptions().max_request_memory)
HANDLER = RequestHandler(NoOpMeterProvider().get_meter("fuzz"), 0, log_decisions=False)


def asking() -> plan_pb2.PlanRequest:
    """Return a request that is complete except for the snapshot."""
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    request.settings.scale_down.unneeded_time.seconds = 60
    return request


def asking_for_all() -> plan_pb2.PlanRequest:
    """Return a request for every decision, with settings of all kinds, complete except for the snapshot."""
    request = plan_pb2.PlanRequest(decisions=codes(TABLE), seed=1)
    request.now.seconds = NOW_S
    for decision in TABLE:
        decision.warm_up(request.settings)
    settings = request.settings
    limit = settings.planner.limits.add(resource="cpu", minimum=1000, maximum=64_000)
    limit.nodes.match_labels["app"] = "other"
    settings.planner.limits.add(resource="memory", maximum=1 << 40)
    settings.planner.balance.max_difference = 2
    settings.scale_up.max_new_nodes = 500
    settings.node_groups["group"].utilization_threshold = 0.7
    return request


def cluster_with_everything() -> pb.ClusterSnapshot:
    """Return a cluster in which every decision has work: groups that grow, buffers, evictions, nodes that leave."""
    cluster = growing_cluster()
    for name, amount in (("default/some", "20%"), ("default/two", "2")):
        one = cluster.slack_requests.requests.add(object=name, namespace="default", scale=10, amount=amount)
        one.limits.add(resource=0, amount=2000)
    cluster.slack_requests.requests.add(object="default/one", namespace="default", amount="1", replicas=1)
    cluster.pods.created = np.full(cluster.pods.count, NOW_S - 900, "<i8").tobytes()
    # Costs are given if every pod of the owner has a node.
    owner, node = (np.frombuffer(column, "<i4") for column in (cluster.pods.owner, cluster.pods.node))
    cluster.pods.owner = np.where(node > 0, owner, 0).astype("<i4").tobytes()
    empty = cluster.nodes.add(name="d", label_set=3, ready=True, node_group="group")
    empty.allocatable.extend([64_000, 64 << 30, 110])
    dictionary = cluster.slack_requests.dictionary
    dictionary.strings.append("")
    dictionary.resources.append("cpu")
    dictionary.pod_specs.add().requests.add(resource=0, amount=700)
    dictionary.label_sets.offsets = bytes(8)
    status = cluster.actuation_status
    status.deletions.add(node="c", node_group="group", drain=True).start_time.seconds = NOW_S - 30
    evicted = status.recent_evictions.add(namespace="default", name="web-9", uid="web-9", owner="owner", spec=0)
    evicted.evict_time.seconds = NOW_S - 20
    cluster.node_groups[1].zero_or_max = True
    add_dear_node(cluster)
    return cluster


def add_dear_node(cluster: pb.ClusterSnapshot) -> None:
    """Add a full node, whose pod fits a new node of a cheaper group alone: the last but one, which was pending."""
    dear = cluster.nodes.add(name="e", label_set=3, ready=True, node_group="dear")
    dear.allocatable.extend([70_000, 16 << 30, 110])
    cluster.node_groups.add(id="dear", max_size=5, target_size=1, price_per_hour=9)
    cheap = cluster.node_groups.add(id="cheap", max_size=5, price_per_hour=0.1)
    cheap.template.CopyFrom(cluster.node_groups[0].template)
    cheap.template.allocatable[0] = 80_000
    cluster.pod_specs.add().requests.add(resource=0, amount=70_000)
    cluster.strings.append("e")
    own = {"node": len(cluster.strings) - 1, "spec": len(cluster.pod_specs) - 1}
    for column, kind in (("owner", "<i4"), ("flags", "u1"), ("phase", "u1"), ("node", "<i4"), ("spec", "<i4")):
        rows = np.frombuffer(getattr(cluster.pods, column), kind).copy()
        rows[-2] = own.get(column, rows[0])
        setattr(cluster.pods, column, rows.tobytes())


def change() -> pb.SnapshotDelta:
    """Return a delta that changes rows of most kinds and deletes one."""
    delta = pb.SnapshotDelta(changed=small_cluster())
    del delta.changed.nodes[:2]
    budget = delta.changed.pod_disruption_budgets.pop()
    delta.deleted_pod_disruption_budgets.append(f"{budget.namespace}/{budget.name}")
    return delta


SNAPSHOT, DELTA, EVERYTHING = small_cluster(), change(), cluster_with_everything()
BASE = canonicalize(SNAPSHOT)


@cache
def planned() -> plan_pb2.PlanState:
    """Return the state of a first plan, made on demand because it compiles all kernels."""
    return HANDLER.plan(asking(), SNAPSHOT.SerializeToString(), Caller()).state


@cache
def groups() -> PodGroups:
    """Return the pods that a state may refer to."""
    return group_pods(BASE)


def snapshot(random: Random) -> None:
    """Check that a damaged snapshot is read or refused."""
    message = damaged(SNAPSHOT, random)
    if message is not None:
        with suppress(*REFUSALS):
            canonicalize(message)  # type: ignore[arg-type]


def delta(random: Random) -> None:
    """Check that a damaged delta is applied or refused."""
    message = damaged(DELTA, random)
    if message is not None:
        with suppress(*REFUSALS):
            apply_delta(BASE, message)  # type: ignore[arg-type]


def state(random: Random) -> None:
    """Check that a damaged state is read or counts as absent, and that its nodes exist."""
    message = damaged(planned(), random)
    if message is not None:
        check_state(message)  # type: ignore[arg-type]


def check_state(state: plan_pb2.PlanState) -> None:
    """Read a state. Its nodes must exist."""
    memory, _ = recall(state.scale_down, BASE.nodes.name, groups(), NOW_S * 10**9)
    count = len(BASE.nodes.name)
    for nodes in (memory.unneeded, memory.failed.node):
        assert ((nodes >= 0) & (nodes < count)).all()
        assert len(np.unique(nodes)) == len(nodes)
    assert ((memory.hint >= -1) & (memory.hint < count)).all()
    assert -1 <= memory.search_start < count
    assert -1 <= memory.resume_at < count


DEADLINE_S = 3.0
"""Time that the caller of a plan gives."""
LATE_S = 1.0
"""How much more processor time a plan may take."""


@cache
def planned_all() -> plan_pb2.PlanState:
    """Return the state of a first plan with every decision, made on demand because it compiles all kernels."""
    answer = HANDLER.plan(asking_for_all(), EVERYTHING.SerializeToString(), Caller())
    assert len(answer.diagnostics.decisions) == len(TABLE)
    assert answer.replacement.waves, "replacement has no work"
    return answer.state


def plan(random: Random) -> None:
    """Check that a damaged snapshot with damaged settings and a forged state gets a plan or an error of the contract,
    in time and within the memory of requests.
    """
    request = asking_for_all()
    if random.random() < 0.2:
        request.decisions[:] = random.sample(request.decisions, random.randrange(1, len(TABLE)))
    parts: list[Any] = [EVERYTHING, request.settings, planned_all()]
    # Each part by itself, and all of them together.
    which = random.choice(((0,), (0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2)))
    for at in which:
        parts[at] = damaged(parts[at], random) if random.random() < 0.7 else with_extremes(parts[at], random)
    if None in parts:
        return
    request.settings.CopyFrom(parts[1])
    if random.random() < 0.8:
        request.state.CopyFrom(parts[2])
    check_in_time(request, parts[0].SerializeToString())


def shape(random: Random) -> None:
    """Check that a request whose work follows from a number or a text in it gets a plan or an error of the contract, in
    time and within the memory of requests.
    """
    name = random.choice(sorted(SHAPES))
    # Most are small: what is found with a large one shows with ten times fewer, too.
    size = int(SHAPES[name].most ** (random.random() ** 4))
    request, cluster = SHAPES[name].make(size)
    if random.random() < 0.5:
        request.settings.CopyFrom(with_extremes(request.settings, random))
    message = damaged(cluster, random) if random.random() < 0.5 else cluster
    if message is not None:
        check_in_time(request, message.SerializeToString())


def check_in_time(request: plan_pb2.PlanRequest, payload: bytes) -> None:
    """Check that a plan or an error comes in time."""
    begun_s = time.process_time()
    with MEMORY.share() as take, suppress(ServiceError):
        reserve_for_reading(payload, take)
        HANDLER.plan(request, payload, Caller(bounds=Bounds.within(DEADLINE_S), reserve=take))
    assert time.process_time() - begun_s < DEADLINE_S + LATE_S, "the deadline was missed"


def external(random: Random) -> None:
    """Check that damaged calls to the external provider are answered or refused, and leave the cluster consistent."""
    message = damaged(random.choice(external_seeds()), random)
    if message is not None:
        read_calls(message.SerializeToString())


def expander(random: Random) -> None:
    """Check that a damaged request for the best option gets one of its options, or is refused."""
    message = damaged(random.choice(best_options_seeds()), random)
    if message is not None:
        with suppress(ServiceError):
            read_best_options(message.SerializeToString())


TARGETS: dict[str, Callable[[Random], None]] = {
    "snapshot": snapshot,
    "delta": delta,
    "state": state,
    "plan": plan,
    "shape": shape,
    "external": external,
    "expander": expander,
    "objects": objects,
}
