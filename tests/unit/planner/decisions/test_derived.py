"""What is kept of a snapshot between calls: an answer never depends on it, and no call writes to it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trimtab.v1 import plan_pb2

from planner.decisions.fit import check_fit
from planner.decisions.plan import plan
from planner.decisions.work import Work
from planner.snapshot.decode import canonicalize
from tests.builders.random_clusters import clusters
from tests.builders.snapshots import Cluster, write

NOW_S = 1_700_000_600


class Kept:
    """Keeps what is derived, and can tell what all of it looks like."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def derive(self, name: str, build: Callable[[], Any], of: tuple[str, ...] = ()) -> Any:
        if name not in self.objects:
            self.objects[name] = build()
        return self.objects[name]

    def look(self) -> dict[str, Any]:
        return {name: look(one) for name, one in self.objects.items()}


def look(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, tuple):
        return tuple(look(item) for item in value)
    return repr(value)


def ask(threshold: float, daemons: bool, spread_timeout: bool) -> plan_pb2.PlanRequest:
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    request.settings.scale_down.utilization_threshold = threshold
    request.settings.scale_down.ignore_daemonsets_utilization = daemons
    request.settings.simulation.topology_spread_timeout = spread_timeout
    return request


@given(
    clusters(), st.lists(st.tuples(st.sampled_from([0.5, 1.0]), st.booleans(), st.booleans()), min_size=2, max_size=4)
)
def test_answers_are_the_same_whether_anything_was_kept_or_not(
    cluster: Cluster, asked: list[tuple[float, bool, bool]]
) -> None:
    snapshot = canonicalize(write(cluster))
    kept = Kept()
    state = None
    for one in asked:
        request = ask(*one)
        afresh = plan(snapshot, request, state, Work())
        before = kept.look()
        again = plan(snapshot, request, state, Work(derive=kept.derive, reuse=kept.derive))
        assert again.SerializeToString(deterministic=True) == afresh.SerializeToString(deterministic=True)
        fits = list(check_fit(snapshot, request, Work(derive=kept.derive)))
        assert fits == list(check_fit(snapshot, request, Work()))
        after = kept.look()
        assert {name: after[name] for name in before} == before
        state = afresh.state
    assert kept.objects
