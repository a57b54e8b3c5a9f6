"""A state of slack is read and written as columns, and answers are kept for equal placeholders only."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.slack import cluster, spec
from tests.builders.snapshots import write
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.values import PodRequirements, SlackRequest
from trimtab.planner.round.round import Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.slack.places import recall, remember
from trimtab.planner.snapshot.columns import NO_NODE, UNKNOWN_NODE
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb


@pytest.mark.parametrize("other", [spec(200), spec(500, node_selector=(("pool", "a"),))], ids=["less", "elsewhere"])
def test_placeholders_for_other_pods_are_written_anew_even_if_their_number_and_nodes_are_the_same(
    other: PodRequirements,
) -> None:
    request, cached = pb.PlanRequest(decisions=[pb.Decision.SLACK]), None
    request.settings.slack.SetInParent()
    answers = []
    for of in (spec(500), other):
        objects = (SlackRequest("Deployment/default/web", "", "default", of, (), 4, "2"),)
        snapshot = canonicalize(write(replace(cluster(3), slack=objects)))
        cached = CachedSnapshot(snapshot, cached)
        answers.append(plan(snapshot, request, None, Work(cache=cached)).slack)
        assert answers[-1] == plan(snapshot, request, None, Work()).slack
    first, second = ([(one.name, one.node) for one in answer.placeholders] for answer in answers)
    assert first == second


def states(**columns: bytes) -> pb.SlackState:
    """Return a state of two sets on nodes a and b, the second with its own columns."""
    good = pb.SlackSetState(name="good", size={"cpu": 1}, number=int32(0, 2), node=int32(1, 0))
    second: dict[str, Any] = {"number": int32(1), "node": int32(2)} | columns
    return pb.SlackState(strings=["", "a", "b"], sets=[good, pb.SlackSetState(name="bad", **second)])


def int32(*values: int) -> bytes:
    return b"".join(one.to_bytes(4, "little", signed=True) for one in values)


def test_sets_are_recalled_as_columns_and_written_again_as_they_were() -> None:
    memory, notes = recall(states(), lambda: {"a": 4})
    assert not notes
    assert memory.row == {"good": 0, "bad": 1}
    assert memory.bounds.tolist() == [0, 2, 3]
    assert (memory.number.tolist(), memory.node.tolist()) == ([0, 2, 1], [4, NO_NODE, UNKNOWN_NODE])
    assert memory.sizes(["good", "none"]) == {"good": {"cpu": 1}}
    heads = [(pb.SlackSetState(name="good"), slice(0, 2))]
    again = pb.SlackState.FromString(remember(heads, memory.number[:2], memory.node[:2], list("uvwxyz")))
    assert again.strings == ["", "y"]
    assert [(one.name, one.number, one.node) for one in again.sets] == [("good", int32(0, 2), int32(1, 0))]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        pytest.param({"node": b"x"}, "bad.node are not a multiple of 4", id="cut off"),
        pytest.param({"node": int32(1, 2)}, "columns of bad differ in length", id="of other lengths"),
        pytest.param({"number": int32(-1)}, "bad.number is not ascending", id="below 0"),
        pytest.param({"number": int32(3, 3), "node": int32(1, 1)}, "bad.number is not ascending", id="twice"),
        pytest.param({"node": int32(3)}, "bad.node refers to a missing string", id="beyond the strings"),
        pytest.param({"node": int32(-1)}, "bad.node refers to a missing string", id="before the strings"),
    ],
)
def test_what_is_wrong_with_a_state_is_said_with_the_name_of_the_set(columns: dict[str, bytes], problem: str) -> None:
    memory, notes = recall(states(**columns), dict)
    assert not memory.row
    assert problem in notes[0]
