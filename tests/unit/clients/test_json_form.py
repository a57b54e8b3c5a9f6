"""The JSON form of a message does not depend on the order in which protobuf gives the keys of a map."""

from google.protobuf import json_format

from trimtab.clients.json_form import json_form
from trimtab.v1 import plan_pb2

NAMES = [f"group-{number:03}" for number in range(40)]


def test_the_keys_of_maps_are_in_order_at_every_depth() -> None:
    answer = plan_pb2.PlanResponse()
    waiting = answer.scale_up.unschedulable.add(pods=["default/a"])
    settings = plan_pb2.PlanSettings()
    for name in reversed(NAMES):
        waiting.reasons[name] = 1
        answer.scale_up.excluded[name] = 2
        settings.node_groups[name].utilization_threshold = 0.5
        settings.slack.resources[name].rate = 0.1
    found = json_form(answer)["scaleUp"]
    assert list(found["excluded"]) == list(found["unschedulable"][0]["reasons"]) == NAMES
    found = json_form(settings)
    assert list(found["nodeGroups"]) == list(found["slack"]["resources"]) == NAMES


def test_the_form_is_that_of_protobuf() -> None:
    answer = plan_pb2.PlanResponse()
    answer.scale_down.unneeded.add(node="n1")
    node = answer.nodes.add(node="n1")
    node.since.FromSeconds(1_800_000_000)
    answer.diagnostics.notes.append("a note")
    expected = json_format.MessageToDict(answer, always_print_fields_with_no_presence=True)
    assert json_form(answer, with_defaults=True) == expected
    assert list(json_form(answer, with_defaults=True)) == list(expected)
    assert json_format.ParseDict(json_form(answer), plan_pb2.PlanResponse()) == answer
