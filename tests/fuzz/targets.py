"""The readers of external bytes: each target takes a generator, makes one input and reads it.

A target raises every error that is not a refusal; a read past an array raises with `NUMBA_BOUNDSCHECK=1`.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random

import numpy as np
from opentelemetry.metrics import NoOpMeterProvider
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

from clients.transport.errors import ServiceError
from planner.placement.hints import PodGroups, group_pods
from planner.scale_down.state import recall
from planner.service.request_handler import Caller, RequestHandler
from planner.service.warm_up import NOW_S, small_cluster
from planner.snapshot.decode import canonicalize
from planner.snapshot.delta import apply_delta
from planner.snapshot.errors import SnapshotError
from tests.fuzz.external_calls import best_options_seeds, external_seeds, read_best_options, read_calls
from tests.fuzz.mutations import damaged

REFUSALS = (SnapshotError,)
HANDLER = RequestHandler(NoOpMeterProvider().get_meter("fuzz"), 0, log_decisions=False)


def asking() -> plan_pb2.PlanRequest:
    """Return a request that is complete except for the snapshot."""
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    request.settings.scale_down.unneeded_time.seconds = 60
    return request


def change() -> pb.SnapshotDelta:
    """Return a delta that changes rows of most kinds and deletes one."""
    delta = pb.SnapshotDelta(changed=small_cluster())
    del delta.changed.nodes[:2]
    budget = delta.changed.pod_disruption_budgets.pop()
    delta.deleted_pod_disruption_budgets.append(f"{budget.namespace}/{budget.name}")
    return delta


SNAPSHOT, DELTA = small_cluster(), change()
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


def plan(random: Random) -> None:
    """Check that a damaged snapshot with a damaged state gets a plan or an error of the contract."""
    request = asking()
    given = damaged(planned(), random)
    if given is not None:
        request.state.CopyFrom(given)
    message = damaged(SNAPSHOT, random) if random.random() < 0.5 else SNAPSHOT
    if message is None:
        return
    with suppress(ServiceError):
        HANDLER.plan(request, message.SerializeToString(), Caller())


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
    "external": external,
    "expander": expander,
}
