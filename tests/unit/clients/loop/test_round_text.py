"""The line of a round says what was started, refused, proposed, and what waits."""

from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.loop import plan_of
from trimtab.clients.loop.round_text import round_text
from trimtab.clients.loop.rounds import RoundResult
from trimtab.places import places_of
from trimtab.v1 import plan_pb2


def done(answer: plan_pb2.PlanResponse, nodes: int = 12) -> RoundResult:
    answer.diagnostics.node_count = nodes
    return RoundResult(plan_pb2.PlanRequest(now=Timestamp(seconds=1)), answer, None, False)


def test_started_and_refused_deletions_are_distinguished_from_proposed_ones() -> None:
    one = done(plan_of(empty=["n1", "n2"], drain=["n3", "n4"], waiting=["n5"]))
    grows = one.answer.scale_up.splits.add(node_group="a", current_size=3, new_size=5)
    one.answer.scale_up.splits.add(node_group="b", current_size=0, new_size=1)
    places = [("d/p", "", "a#0"), ("d/q", "", "a#1"), ("d/r", "", "b#0")]
    one.answer.scale_up.places.CopyFrom(places_of(places))
    one.answer.scale_up.unschedulable.add(pods=["d/s"])
    assert round_text(one) == (
        "12 nodes; a should grow from 3 to 5 for 2 pods; b should grow from 0 to 1 for 1 pod; "
        "n1, n2, n3, n4 should go, 2 of them after a drain; 1 node can go later; 1 pod stays pending"
    )
    one.grown, one.accepted = [grows.node_group], ["n1", "n3"]
    one.refused = {"b": "BACKED_OFF no quota", "n4": "LIMIT one at a time"}
    one.notes = ["a note"]
    assert round_text(one) == (
        "12 nodes; a grows from 3 to 5 for 2 pods; b does not grow from 0 to 1 for 1 pod: BACKED_OFF no quota; "
        "n1, n3 go, 1 of them after a drain; n4 stays: LIMIT one at a time; n2 should go; 1 node can go later; "
        "1 pod stays pending; a note"
    )


def test_a_round_without_decisions_says_so_and_not_how_many_pods_there_are() -> None:
    one, other = done(plan_pb2.PlanResponse(), 1), done(plan_pb2.PlanResponse(), 1)
    other.answer.diagnostics.pod_count = 5000
    assert round_text(one) == round_text(other) == "1 node; nothing to do"


def test_many_nodes_are_counted() -> None:
    names = [f"n{number}" for number in range(9)]
    assert "n0, n1, n2, n3, n4 and 4 more nodes should go" in round_text(done(plan_of(empty=names)))
