"""A log of moves that is too short never affects a plan: it is noticed, and everything is decided again with a longer
one.
"""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.drain_sets import MIX, objects_of
from tests.builders.kubernetes import node, node_group, pod, replica_set, snapshot_of
from tests.builders.scale_down import NOW_S, settings_of
from tests.parity.scheduler_oracle.generator.cluster import cluster
from trimtab.planner.model.settings import resolve_scale_down
from trimtab.planner.round.round import Round
from trimtab.planner.scale_down.context import ScaleDownRequest
from trimtab.planner.scale_down.decision import decide_scale_down
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.log import move_log
from trimtab.planner.simulation.virtual_rows import NO_KINDS, Kinds, VirtualPod, VirtualRows
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

SMALL = MIX._replace(nodes=(4, 8), pods=(10, 30))

SETTINGS = {"utilizationThreshold": 1, "unneededTime": "0s", "skipNodesWithLocalStorage": False}


def with_log_of(capacity: int, snapshot: Snapshot) -> Callable[..., Simulation]:
    def build(pods: tuple[VirtualPod, ...], _: Kinds = NO_KINDS) -> Simulation:
        simulation = build_simulation(snapshot, VirtualRows(pods))
        return simulation._replace(state=simulation.state._replace(log=move_log(capacity)))

    return build


def decided(snapshot: Snapshot, capacity: int, state: plan_pb2.ScaleDownState | None) -> list[bytes]:
    this = Round(snapshot, with_log_of(capacity, snapshot), NOW_S * 10**9)
    request = ScaleDownRequest(this, resolve_scale_down(settings_of(SETTINGS)), state)
    found = decide_scale_down(request)
    return [one.SerializeToString(deterministic=True) for one in (found.result, found.state)]


@given(seed=st.integers(0, 2**32), short=st.integers(0, 200))
@settings(max_examples=10, deadline=None)
def test_a_plan_is_the_same_however_short_the_log_was_at_first(seed: int, short: int) -> None:
    snapshot = canonicalize(snapshot_of(objects_of(cluster("c", seed, SMALL))))
    whole = decided(snapshot, 100_000, None)
    assert decided(snapshot, short, None) == whole
    state = plan_pb2.ScaleDownState.FromString(whole[1])
    assert decided(snapshot, short, state) == decided(snapshot, 100_000, state)


def test_a_short_log_does_not_put_two_pods_into_the_room_of_one() -> None:
    web = replica_set("web", 2)
    snapshot = canonicalize(snapshot_of(
        web, node("n1", "2"), node("n2", "2"), node("n3", "2"), node_group("g", nodes=["n1", "n2"], target=2),
        pod("p1", "900m", node="n1", owner=web), pod("p2", "900m", node="n2", owner=web),
        pod("p3", "900m", node="n3", owner=web),
    ))  # fmt: skip
    for capacity in range(12):
        decision = plan_pb2.ScaleDownDecision.FromString(decided(snapshot, capacity, None)[0])
        assert len(decision.unneeded) == 1
