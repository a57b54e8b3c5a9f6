"""Whether nodes have to declare features follows from the snapshot alone, not from the decisions that are requested."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.values import Owner, PodRequirements
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import PredicateReason

NOW_S = 1_800_000_000
ROOM = {"cpu": 4000, "memory": 2**33, "pods": 110}
SPEC = PodRequirements(requests=(("cpu", 100),), node_features=("F",))
DOWN, UP = pb.Decision.SCALE_DOWN, pb.Decision.SCALE_UP


def snapshot(template_features: tuple[str, ...]) -> Snapshot:
    """Return two nodes that declare nothing, a pod on n1 that needs the feature F, one on n2 that keeps it, and a group
    with a template."""
    nodes = {name: NodeRow(allocatable=ROOM, group="g") for name in ("n1", "n2")}
    template = NodeRow(allocatable=ROOM, declared_features=template_features)
    owner = Owner("o", "ReplicaSet", "web", "default", 1, 1, "apps/v1")
    return canonicalize(
        write(
            Cluster(
                nodes=nodes,
                pods={
                    ("default", "p"): PodRow(spec=SPEC, uid="p", node="n1", phase=2, owner="o"),
                    ("default", "bare"): PodRow(uid="bare", node="n2", phase=2),
                },
                groups={"g": Group(0, 9, 2, template)},
                owners={"o": owner},
            )
        )
    )


def request(*decisions: pb.Decision.Code.ValueType) -> pb.PlanRequest:
    return pb.PlanRequest(decisions=decisions, now=Timestamp(seconds=NOW_S), fit_pods=["default/p"])


@pytest.mark.parametrize(
    ("features", "reasons"),
    [
        pytest.param((), [], id="an old template"),
        pytest.param(("F",), [PredicateReason.NODE_FEATURE_NOT_DECLARED], id="a template that declares it"),
        pytest.param(("G",), [PredicateReason.NODE_FEATURE_NOT_DECLARED], id="a template that declares another"),
    ],
)
def test_scale_down_and_fits_are_the_same_whether_scale_up_is_requested_or_not(
    features: tuple[str, ...], reasons: list[int]
) -> None:
    given = snapshot(features)
    alone, both = (plan(given, request(*decisions), None, Work()) for decisions in ((DOWN,), (UP, DOWN)))
    assert (alone.scale_down, list(alone.nodes)) == (both.scale_down, list(both.nodes))
    assert [one.node for one in alone.scale_down.unneeded] == ([] if reasons else ["n1"])
    (fit,) = check_fit(given, request(), Work())
    assert [list(node.reasons) for node in fit.nodes] == [reasons] * 2
