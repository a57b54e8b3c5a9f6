"""The names in the JSON of answers that users rely on, decision by decision."""

from typing import Any

import pytest
from google.protobuf.message import Message

from trimtab.clients.json_form import readable_form
from trimtab.places import places_of
from trimtab.v1 import plan_pb2, reason_pb2


def scale_up() -> Message:
    split = plan_pb2.ScaleUpSplit(node_group="a", current_size=1, new_size=2, max_size=3, price_per_hour=0.5)
    reason = reason_pb2.NodeGroupReason.PREDICATE_FAILED
    pod = plan_pb2.Shortfall(pods=["n/q"], reasons={"a": reason})
    return plan_pb2.ScaleUpDecision(
        splits=[split],
        unschedulable=[pod],
        places=places_of([("n/r", "", "node"), ("n/s", "", "a#upcoming"), ("n/p", "", "a#0")]),
        result=reason_pb2.ScaleUpResult.SCALE_UP_NEEDED,
    )


def slack() -> Message:
    placeholder = plan_pb2.Placeholder(
        name="s",
        cpu_milli=1,
        memory_bytes=2,
        node="node",
        kind=plan_pb2.PlaceholderKind.WORKLOAD,
        for_object="Deployment/n/web",
    )
    return plan_pb2.SlackDecision(placeholders=[placeholder], desired={"cpu": 3}, pushed_out=["t"])


def pod_costs() -> Message:
    return plan_pb2.PodCostsDecision(
        groups=[plan_pb2.PodCostGroup(owner="ReplicaSet/n/web", pods=["n/p"], costs=[-5], complete=True)]
    )


def without_defaults(document: Any) -> Any:
    """Leave out what is empty."""
    if isinstance(document, list):
        return [without_defaults(one) for one in document]
    if not isinstance(document, dict):
        return document
    found = {key: without_defaults(one) for key, one in document.items()}
    return {key: one for key, one in found.items() if one not in ("", 0, False, [], {}, "0") and one != "UNSPECIFIED"}


ANSWERS: dict[str, tuple[Message, dict[str, Any]]] = {
    "scale-up": (
        scale_up(),
        {
            "splits": [
                {
                    "nodeGroup": "a",
                    "currentSize": 1,
                    "newSize": 2,
                    "maxSize": 3,
                    "pods": ["n/p"],
                    "newNodes": [{"pods": ["n/p"]}],
                    "pricePerHour": 0.5,
                }
            ],
            "unschedulable": [{"pod": "n/q", "reasons": {"a": "PREDICATE_FAILED"}}],
            "onExisting": {"n/r": "node"},
            "onUpcoming": {"n/s": "a"},
            "result": "SCALE_UP_NEEDED",
        },
    ),
    "slack": (
        slack(),
        {
            "placeholders": [
                {
                    "name": "s",
                    "cpuMilli": "1",
                    "memoryBytes": "2",
                    "node": "node",
                    "kind": "WORKLOAD",
                    "for": "Deployment/n/web",
                }
            ],
            "desired": {"cpu": "3"},
            "pushedOut": ["t"],
        },
    ),
    "pod costs": (
        pod_costs(),
        {"groups": [{"owner": "ReplicaSet/n/web", "order": ["n/p"], "costs": {"n/p": -5}, "complete": True}]},
    ),
}


@pytest.mark.parametrize(("message", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_has_the_names_that_users_rely_on(message: Message, expected: dict[str, Any]) -> None:
    assert without_defaults(readable_form(message)) == expected
