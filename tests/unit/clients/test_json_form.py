"""The JSON form of a message does not depend on the order in which protobuf gives the keys of a map."""

import struct

from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from trimtab.clients.json_form import json_form, readable_form
from trimtab.places import Place, destinations, each_place, moves_by_node, places_of
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
    answer.summary.notes.append("a note")
    expected = json_format.MessageToDict(answer, always_print_fields_with_no_presence=True)
    assert json_form(answer, with_defaults=True) == expected
    assert list(json_form(answer, with_defaults=True)) == list(expected)
    assert json_format.ParseDict(json_form(answer), plan_pb2.PlanResponse()) == answer


def test_columns_are_maps_by_name_in_the_form_for_people() -> None:
    answer = plan_pb2.PlanResponse()
    answer.scale_down.unneeded.add(node="n1")
    answer.scale_down.unneeded.add(node="n2")
    answer.scale_down.places.CopyFrom(places_of([("d/b", "n1", "n3"), ("d/a", "n1", "n4")]))
    wave = answer.replacement.waves.add()
    wave.leaving.add(node="n5")
    wave.places.CopyFrom(places_of([("d/c", "n5", "small#0")]))
    answer.scale_up.splits.add(node_group="g", current_size=1, new_size=3)
    places = [("d/e", "", "n1"), ("d/f", "", "g#upcoming"), ("d/h", "", "g#1"), ("d/g", "", "g#1")]
    answer.scale_up.places.CopyFrom(places_of(places))
    answer.scale_up.unschedulable.add(pods=["d/x", "d/y"], detail="why")
    group = answer.pod_costs.groups.add(owner="o", pods=["d/q", "d/p"], costs=[-7, -2])
    group.shares.add(ranks=struct.pack("<2d", 0.5, 0.25), own_ranks=struct.pack("<2d", 2, 1))
    found = readable_form(answer)
    assert [one["destinations"] for one in found["scaleDown"]["unneeded"]] == [{"d/a": "n4", "d/b": "n3"}, {}]
    assert found["replacement"]["waves"][0]["leaving"][0]["destinations"] == {"d/c": "small#0"}
    scale_up = found["scaleUp"]
    assert (scale_up["onExisting"], scale_up["onUpcoming"]) == ({"d/e": "n1"}, {"d/f": "g"})
    assert scale_up["splits"][0]["pods"] == ["d/g", "d/h"]
    assert scale_up["splits"][0]["newNodes"] == [{"pods": []}, {"pods": ["d/g", "d/h"]}]
    assert [(one["pod"], one["detail"]) for one in scale_up["unschedulable"]] == [("d/x", "why"), ("d/y", "why")]
    shown = found["podCosts"]["groups"][0]
    assert (shown["order"], shown["costs"]) == (["d/q", "d/p"], {"d/p": -2, "d/q": -7})
    assert (shown["shares"][0]["ranks"], shown["shares"][0]["ownRanks"]) == ([0.5, 0.25], [2.0, 1.0])
    assert not any("places" in one for one in (found["scaleDown"], scale_up, found["replacement"]["waves"][0]))


NODES = st.sampled_from(["", "n1", "n2", "a#b#0", "g#upcoming"])


@given(st.dictionaries(st.sampled_from([f"d/p{at}" for at in range(9)]), st.tuples(NODES, NODES.filter(bool))))
def test_places_that_are_written_are_read_as_they_were(rows: dict[str, tuple[str, str]]) -> None:
    given = [Place(pod, source, to) for pod, (source, to) in rows.items()]
    written = places_of(given)
    assert list(each_place(written)) == given
    assert len(set(written.nodes)) == len(written.nodes)
    assert not written.sources or any(written.sources)
    assert destinations(written) == {one.pod: one.destination for one in given}
    by_node = moves_by_node(written)
    assert sorted(pod for moves in by_node.values() for pod in moves) == sorted(rows)
    assert all(by_node[one.source][one.pod] == one.destination for one in given)
